"""Values that the chart is rendered with: one entry for each way of running it, and one with everything at once."""

from typing import Any

Values = dict[str, Any]

#: All that is needed.
SECRET: Values = {"upstream": {"secret": {"name": "shop-db"}}}
STORY = {"sql": "SELECT id, title\nFROM stories\nWHERE id = :id", "cache_control": "public, max-age=5"}
PEERS = [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}]
KAFKA: Values = {
    "upstream": {"url": "postgresql://app@db.shop:6432/app?sslrootcert=/etc/upquery/tls/upstream/ca.crt"}
    | {"secret": {"name": "shop-db", "passwordKey": "pw"}, "tlsSecret": "shop-ca"},
    "cdc": {"source": "kafka"},
    "kafka": {
        "bootstrapServers": "kafka-1:9093,kafka-2:9093",
        "topicPrefix": "shop",
        "settings": {"security_protocol": "SASL_SSL", "sasl_mechanism": "SCRAM-SHA-512", "sasl_username": "upquery"},
        "saslSecret": {"name": "kafka-login"},
        "tls": {"secret": "kafka-ca", "clientCertificate": True},
    },
}
CONNECTOR: Values = {
    "enabled": True,
    "cluster": "connect",
    "hostname": "db.shop",
    "databaseName": "app",
    "user": "${secrets:shop/debezium:user}",
    "password": "${secrets:shop/debezium:password}",
    "tables": ["public.stories", "public.votes"],
}
MARIADB: Values = {
    "upstream": {"url": "mariadb://app@maria.shop/app", "secret": {"name": "maria"}},
    "cdc": {"url": "mariadb://binlog@maria-primary.shop/app", "secret": {"name": "maria", "passwordKey": "binlog"}},
    "networkPolicy": {"egress": {"enabled": True}},
    "persistence": {"enabled": True, "storageClass": "fast", "whenDeleted": "Delete"},
}
EVERYTHING: Values = {
    **KAFKA,
    "kafka": {**KAFKA["kafka"], "connector": {**CONNECTOR, "config": {"slot.name": "shop_debezium"}}},
    "image": {"repository": "registry.example/upquery", "digest": "sha256:" + "0f" * 32}
    | {"pullSecrets": [{"name": "registry"}], "pullPolicy": "Always"},
    "workers": 4,
    "memory": "6Gi",
    "subscriptionMemory": "128Mi",
    "views": {"story": STORY, "front": {"sql": "SELECT id FROM stories ORDER BY id LIMIT 10", "limit_rows": 2_000_000}},
    "auth": {"existingSecret": "shop-tokens", "jwt": {"issuer": "https://id.example/", "audience": "upquery"}}
    | {"openMetrics": False},
    "http": {
        "service": {"type": "LoadBalancer", "port": 443, "sessionAffinity": "ClientIP", "annotations": {"a": "b"}}
    },
    "settings": {"log": {"level": "warning"}, "traces": {"endpoint": "http://otel:4318/v1/traces", "sample_rate": 0.25}}
    | {"access_log": {"sample_rate": 0.001}, "subscriptions": {"origins": ["https://a.example", "https://b.example"]}},
    "accessLog": {"enabled": True, "volume": {"persistentVolumeClaim": {"claimName": "reads"}}},
    "persistence": {"enabled": True},
    "ingress": {"enabled": True, "className": "nginx", "hosts": ["views.example", "other.example"]}
    | {"tls": [{"secretName": "views-tls", "hosts": ["views.example", "other.example"]}], "annotations": {"c": "d"}},
    "autoscaling": {"enabled": True, "maxReplicas": 12},
    "podDisruptionBudget": {"maxUnavailable": "25%"},
    "networkPolicy": {
        "httpFrom": PEERS,
        "adminFrom": PEERS,
        "egress": {"enabled": True, "upstreamTo": [{"ipBlock": {"cidr": "10.0.0.0/8"}}], "kafkaPorts": [9093]}
        | {"kafkaTo": PEERS, "extra": [{"ports": [{"port": 443, "protocol": "TCP"}]}]},
    },
    "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}, "tokenSecret": {"name": "metrics-token"}},
    "prometheusRule": {"enabled": True, "labels": {"release": "prometheus"}},
    "dashboard": {"enabled": True},
    "drain": {"sleepSeconds": 15, "gracePeriodSeconds": 45},
    "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": 4, "memory": "10Gi"}},
    "serviceAccount": {"name": "reader", "annotations": {"e": "f"}},
    "topologySpreadConstraints": [{"maxSkew": 2, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule"}],
    "podAnnotations": {"g": "h"},
    "podLabels": {"team": "shop"},
    "nodeSelector": {"disk": "fast"},
    "tolerations": [{"key": "cache", "operator": "Exists", "effect": "NoSchedule"}],
    "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
    "priorityClassName": "high",
    "extraEnv": [
        {"name": "OTEL_EXPORTER_OTLP_HEADERS", "valueFrom": {"secretKeyRef": {"name": "otel", "key": "headers"}}}
    ],
    "extraVolumes": [{"name": "keys", "configMap": {"name": "issuer-keys"}}],
    "extraVolumeMounts": [{"name": "keys", "mountPath": "/etc/keys"}],
}
EVERYTHING["auth"]["jwt"]["jwks_file"] = "/etc/keys/jwks.json"
READS: Values = {"enabled": True, "volume": {"persistentVolumeClaim": {"claimName": "reads"}}}
MODELS: Values = {"persistentVolumeClaim": {"claimName": "models"}}
#: With several shards the pods are not scaled by themselves.
SHARDED: Values = EVERYTHING | {
    "shards": 4,
    "replicas": 2,
    "autoscaling": {"enabled": False},
    "affinity": {},
    "auth": EVERYTHING["auth"] | {"adminToken": {"secret": "shop-admin", "key": "token"}},
    "gateway": {
        "workers": 2,
        "shards": 3,
        "settings": {"gateway": {"move_s": 300}, "http": {"max_connections": 500}},
        "autoscaling": {"enabled": True, "minReplicas": 3},
        "maxUnavailable": "50%",
        "resources": {"requests": {"cpu": 1}, "limits": {"memory": "1Gi"}},
        "nodeSelector": {"disk": "none"},
        "tolerations": [{"key": "edge", "operator": "Exists", "effect": "NoSchedule"}],
        "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule"}],
    },
    "audit": {"enabled": True, "schedule": "@daily", "timeZone": "Europe/Berlin", "limitSeconds": 60},
    "workload": {"enabled": True, "volume": MODELS, "arguments": ["--reads", "50000"]}
    | {"image": {"repository": "registry.example/upquery-spark", "tag": "1"}},
}

MATRIX: dict[str, Values] = {
    "secret": SECRET,
    "everything": EVERYTHING,
    "mariadb": MARIADB,
    "kafka": KAFKA,
    "url-without-password": {"upstream": {"url": "postgresql://app@db/app"}},
    "several": SECRET | {"replicas": 3, "workers": 1, "memory": "512Mi", "http": {"host": "::"}},
    "ephemeral-log": SECRET | {"accessLog": {"enabled": True}, "settings": {"access_log": {"sample": "reads"}}},
    "jwt-only": SECRET | {"auth": {"jwt": {"issuer": "i", "audience": "a", "jwks_url": "https://id.example/keys"}}},
    "bare": SECRET
    | {name: {"enabled": False} for name in ("podDisruptionBudget", "networkPolicy")}
    | {"serviceAccount": {"create": False}, "drain": {"sleepSeconds": 0}},
    "closed": SECRET | {"networkPolicy": {"httpFrom": [], "egress": {"enabled": True, "upstreamPorts": [5432, 6432]}}},
    "open-metrics": SECRET | {"auth": {"openMetrics": True}, "serviceMonitor": {"enabled": True}},
    "mysql-connector": {
        **MARIADB,
        "kafka": {"bootstrapServers": "kafka:9092", "topicPrefix": "shop.eu"}
        | {"connector": CONNECTOR | {"database": "mysql", "apiVersion": "kafka.strimzi.io/v1beta2", "port": 3307}},
    },
    "sharded": SECRET | {"shards": 2, "views": {"story": STORY}},
    "gateway": SECRET | {"gateway": {"enabled": True}, "replicas": 2},
    "sharded-everything": SHARDED,
    "job": SECRET | {"accessLog": READS, "workload": {"enabled": True, "kind": "Job", "volume": MODELS}},
    "spark-application": SECRET
    | {"accessLog": READS, "networkPolicy": {"egress": {"enabled": True, "upstreamPorts": [5432]}}}
    | {"workload": {"enabled": True, "kind": "SparkApplication", "volume": MODELS, "image": {"repository": "spark"}}},
    "audited": SECRET | {"replicas": 2, "audit": {"enabled": True, "views": ["story"], "sample": 100}},
    "warm": SECRET | {"persistence": {"enabled": True}, "replicas": 2},
    "warm-shards": SECRET
    | {"persistence": {"enabled": True}, "replicas": 2, "shards": 2, "upstream": {"url": "postgresql://app@db/app"}},
    "autoscaled": SECRET | {"autoscaling": {"enabled": True, "minReplicas": 1}},
}
