"""The change stream as Debezium publishes it to Kafka."""
