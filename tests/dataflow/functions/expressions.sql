-- Expressions over the columns of test_expressions.py, one a line: each is planned, computed and compared with the server.

-- numbers
i4 / 3
i4 / i2
i8 / i4
i4 % 7
-i4
- i4 + 1
i4 * 2 - i2
n / 3
n / i4
n + i4 * 1.5
n % 2
n * n2
n2 / 7
n2 + n2
abs(n)
round(n)
round(n, 1)
round(n2, 1)
round(i4)
round(i4, -1)
round(f8)
round(f8::numeric, 2)
round(i4 / 3.0, 2)
ceil(n)
ceiling(f8)
floor(i4)
trunc(n, 1)
trunc(f8)
sign(i4)
mod(i4, 5)
mod(n, 1.5)
div(n, 2)
sqrt(f8)
sqrt(i4)
f8 + f4
f8 * 2
f8 / 3
f4 * f4
f4 + 1
f8 - n
i4 & 6
i4 | 1
i4 # 3
~ i4
i4 << 2
i8 >> 1
greatest(i4, i2, 3)
least(n, i4)
greatest(f8, n)
greatest(t, 'b')
least(d, '2000-01-01')
greatest(ts, d)
i4::text
n::int
n::numeric(6,1)
n::numeric(40)
f8::int
f8::bigint
f4::float8
f8::real
n::float8
i4::float4
i8::smallint
f8::numeric
f4::numeric
t::int
t::numeric
t::float8
t::bool
b::int
b::text
i4::bool
cast(i4 as decimal(3))
to_hex(i4)
i4 = n
n = i8
f8 > n
i4 in (1, 2.0, 7)
n in (1, 2, 2.50)
n2 = 1.5
coalesce(n2, n, 0)
coalesce(i4, f8)
nullif(n, 0)
case when i4 > 0 then i4 else n end
case i4 when 1 then 'one' when 2 then 'two' end
-9223372036854775808
- (-5)
i4 + '1'
'3' * i4
1e3 + i4
scale(n)
pi() * f8
degrees(f8)
radians(f4)
gcd(i4, 12)

-- text
lower(t)
upper(t)
lower(vc) || '!'
upper(bc)
initcap(t collate "C")
lower(t collate "C")
length(t)
length(bc)
char_length(vc)
octet_length(t)
t || i4
i4 || t
t || b
b || ' is ' || t
vc || bc
t || NULL
substring(t, 2)
substring(t, 2, 3)
substring(t from 2 for 3)
substring(t for 2)
substr(t, -1, 4)
left(t, 2)
left(t, -1)
right(t, 2)
trim(t)
trim(both 'x ' from t)
trim(leading from t)
trim(trailing 'a' from t)
btrim(t, 'a')
ltrim(t)
rtrim(vc)
replace(t, 'a', 'bb')
position('a' in t)
strpos(t, 'b')
concat(t, i4, b, n, d, NULL)
concat_ws('-', t, vc, bc, f8)
concat_ws(NULL, t)
repeat(t, 2)
lpad(t, 5)
lpad(t, 5, 'xy')
rpad(t, 3, '*')
reverse(t)
split_part(t, ',', 2)
split_part(t, ',', -1)
starts_with(t, 'a')
ascii(t)
chr(i4)
md5(t)
translate(t, 'abc', 'xy')
overlay(t placing 'ZZ' from 2)
overlay(t placing 'ZZ' from 2 for 0)
bc like 'a%'
bc like 'a'
bc like 'a   '
bc not ilike '%B%'
bc ~ '^a '
bc ~* 'A'
quote_literal(t)
substring(t from '[a-c]+')
substring(t from 'a|b')
t like 'a%'
t not like '%b%'
t like vc
t like 'a\%%'
t like 'a!%%' escape '!'
t like '%\\%'
vc like '_b'
t ilike 'A%'
t not ilike '%S%'
t ilike vc
t ~~ 'a%'
t ~ '^[a-z]+$'
t ~* 'AB'
t !~ 'x'
t !~* 'A|B'
t ~ '\d'
t = vc
t = bc
bc = 'a'
bc = vc
t < vc
t collate "C" < 'b'
t in ('a', 'b', NULL)
t between 'a' and 'b'
t between symmetric 'b' and 'a'
t::varchar(2)
t::char(3)
bc::text
vc::text
t::varchar
E'a\tb\\' || t
e'it''s' || t
$$dollar$$ || t
t::uuid
u::text
lower(u::text)
coalesce(t, vc)
coalesce(vc, 'x')
coalesce(bc, t)
nullif(t, '')
nullif(t, vc)
case when b then t else vc end
t is distinct from vc
t is not distinct from 'a'
quote_ident(t) is null
regexp_replace(t, '[^a-z]+', '-', 'g')
regexp_replace(t, 'b', 'X')
regexp_replace(t, '^\s', 'X')
regexp_replace(t, '(a|b)', 'X')
regexp_replace(t, 'a*', 'X')
regexp_replace(t, 'a', '\1')
array_to_string(ta, ',')
array_to_string(ia, '')
neg(i4)

-- logic
b is true
b is not true
b is unknown
b is not unknown
b is false or b is null
not b
b and i4 > 0
b or i4 / 1 > 0
i4 isnull
i4 notnull
(i4, i2) = (1, 2)
(i4, t) <> (1, 'a')
(i4, i2) < (2, 3)
(i4, i2, i8) >= (2, 2, 2)
(i4, i2) in ((1, 2), (2, 3), (3, NULL))
row(i4, t) = row(1, 'a')
(i4, t) is distinct from (1, NULL)
i4 = any(array[1, 2, 3])
i4 <> all(array[1, 2])
i4 = any('{1,2,NULL}')
i4 > all('{0,1}'::int[])
i4 > any(array[i2, 1])
i4 = any(ia)
t = any(ta)
t <> all(ta)
i4 not in (1, 2)
i4 not in (1, NULL)
i4 between symmetric 3 and 1
i4 between 1 and n
num_nulls(t, i4, b)
num_nonnulls(t, i4)
array[i4, 1]
array[t, 'x']
ia[1]
ta[2]
ta[i2]
array_length(ia, 1)
cardinality(ta)
ta::text

array_upper(ia, 1)
array_lower(ia, 1)
ia || 4
0 || ia
ia || array[9]
ia || '{7,8}'
ta || array['z']
array_append(ia, 4)
array_append(ta, 'x')
array_prepend('x', ta)
array_cat(ia, array[9])
array_position(ia, 3)
array_position(ta, 'a')
array_position(ta, NULL)
array_remove(ia, 3)
array_remove(ta, 'a')
ia @> array[1]
ta @> '{a}'
array['a'] <@ ta
ia && array[3, 7]
array_to_string(ta, ',', '*')

-- enums
m = 'ok'
m < 'happy'
m = 'ok'::mood
m <> all(array['ok', 'sad']::mood[])
m in ('sad', 'ok')
m = any('{sad,happy}')
m::text
lower(m::text)
m || '!'
greatest(m, 'ok')
coalesce(m, 'sad')
concat(m, i4)
case m when 'ok' then 1 else 2 end
nullif(m, 'ok')
'happy'::public.mood

-- dates
d + 1
d - 7
1 + d
d - '2000-01-01'
d - d
d + interval '1 month'
d - interval '1 day 2 hours'
ts + interval '1 mon'
ts + '1 day'
ts - interval '1 year 2 mons 3 days 04:05:06'
tz + interval '90 minutes'
interval '1 week' + ts
ts - '2000-01-01'
ts - ts
tz - '2000-01-01 12:00:00+00'
tz - ts
ts + iv
tz - iv
iv + iv
iv - interval '1 hour'
iv * 2
iv * 1.5
iv * f8
iv / 3
- iv
i4 * interval '1 day'
interval '1 hour' * n2
date_trunc('month', ts)
date_trunc('week', tz)
date_trunc('day', d)
date_trunc('quarter', ts)
date_trunc('hour', iv)
date_trunc('Decade', ts)
extract(year from ts)
extract(epoch from tz)
extract(dow from d)
extract('doy' from ts)
extract(second from ts)
extract(day from iv)
extract(epoch from iv)
extract(epoch from ts - '2000-01-01')
extract(epoch from d)
extract(hour from tm)
date_part('year', ts)
date_part('epoch', tz)
date_part('month', d)
date_part('second', ts)
make_date(2024, i2, 3)
make_interval(days => i4)
make_interval(1, 2, 3, i2)
make_interval(secs => f8, years => i2)
date_bin('15 minutes', ts, timestamp '2001-01-01')
date_bin('1 day 1 hour', tz, '2020-01-01')
date_bin('1 month', ts, '2020-01-01')
date_trunc('hour', tz, 'UTC')
date_trunc('hour', tz, 'Europe/Paris')
age(ts, '2000-02-29')
to_timestamp(i4)
to_timestamp(f8)
to_timestamp(1700000000.5)
ts::timestamp(0)
tz::timestamptz(3)
ts::timestamptz(2)
age(tz, tz)
age(d, '1999-12-31')
justify_days(iv)
justify_hours(iv)
justify_interval(iv)
isfinite(d)
ts::date
tz::date
d::timestamp
d::timestamptz
ts::timestamptz
tz::timestamp
ts::time
ts::text
d::text
iv::text
date(ts)
date(tz)
ts at time zone 'UTC'
tz at time zone 'utc'
timezone('UTC', tz)
to_char(ts, 'YYYY-MM-DD')
to_char(tz, 'YYYY-MM-DD HH24:MI:SS')
to_char(ts, 'Mon DD, YYYY')
to_char(d, 'Day')
d = ts
d < tz
ts = tz
ts > '2000-01-01'
d between '1999-01-01' and '2020-01-01'
d in ('2000-01-01', '1970-01-01')
d > ts - interval '1 day'
coalesce(ts, d)
coalesce(tz, ts)
greatest(tz, ts)
date '2000-01-01' + i2
timestamp '2000-01-01 00:00:00' + iv
interval '1' day + ts
iv > interval '1 day'
tm + interval '1 hour'
tm - tm
d + tm
extract(epoch from interval '1 day 2 hours 3.5 seconds') + i4
current_date is null

-- json
j -> 'a'
j ->> 'a'
jb -> 'a'
jb ->> 'a'
jb -> 'a' ->> 'b'
jb -> 'a' -> 'b' ->> 0
j -> 0
j ->> -1
jb -> i2::int
jb ->> 1
jb #> '{a,b}'
jb #>> '{a,b,0}'
j #>> '{a,b,2}'
jb ? 'a'
jb ?| array['a', 'b']
jb ?& array['a']
jb @> '{"a": 1}'
'[1]' <@ jb
jb @> '{"a": {"b": [2]}}'
jb = '{"a": 1.0}'
jb = jb
jb || '{"z": 1}'
jb || jb
'[1]' || jb
jb - 'a'
jb - 0
jb - i2::int
jb ->> 'a' = 'x'
jb ->> 'a' || 'x'
(jb ->> 'a')::int + 1
lower(jb ->> 'a')
jb ->> 'a' ilike '%A%'
json_array_length(j)
jsonb_typeof(jb -> 'a')
coalesce(jb -> 'a', jb)
jsonb_extract_path_text(jb, 'a')
jsonb_extract_path(jb, 'a', 'b')
json_extract_path_text(j, 'a')
jsonb_strip_nulls(jb)
jsonb_array_length(jb)
jsonb_typeof(jb)
json_typeof(j)
j::text
jb::text
t::jsonb
t::json
jb::json
j::jsonb
coalesce(jb ->> 'a', t)
case when jb ? 'a' then jb ->> 'a' else 'none' end
'{"b":1,"a":[true,null,1.50,"x\ny"]}'::jsonb -> 'a'
