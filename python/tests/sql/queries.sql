-- Queries over the tables of `sql_tables.py`, whose results DuckDB's must equal.

-- selection and projection
select * from people;
select name, age from people where age > 30;
select name as n, age + 1 as older from people;
select People.Name, p2.AGE from people join people p2 on people.id = p2.id;
select NAME from PEOPLE;
select p.* from people p where p.city is null;
select p.*, age * 2 as twice from people p;
select age, age, age as age2 from people;
select distinct city from people;
select distinct city, age > 30 as old from people;
select * exclude (age) from people;
select id % 3 as m, -id as minus, +id as plus from people;
select * from people where city = 'Ur' or (age between 20 and 40 and not name like 'A%');
select * from people where city in ('Ur', 'Kish');
select * from people where city not in ('Ur', 'Kish');
select * from people where age is not distinct from null;
select case when age < 30 then 'young' when age < 60 then 'grown' else 'old' end as kind, id from people;
select case city when 'Ur' then 1 when 'Kish' then 2 end as number, id from people;
select coalesce(city, 'nowhere') as c, nullif(age, 30) as a from people;
select upper(name) || '-' || lower(city) as u from people;
select substring(name, 2, 3) as s, length(name) as l from people;
select cast(age as double) / 4 as d, cast(id as varchar) as t from people;
select id::double as d, try_cast(name as int) as i from people;
select round(salary, 1) as r, abs(id - 5) as a, floor(salary) as f, ceil(salary) as c from people;
select name from people where name like '%a_' escape '\';
select name from people where name ilike 'a%';
select extract(year from born) as y, extract(month from born) as m, date_trunc('month', born) as t from people;
select born + interval '1' month as b, born - date '2000-01-01' as d from people where born is not null;
select true as t, false as f, 1 as one, 'x' as x;
select 1 + 1 as two;
select 0.06 - 0.01 as d, 0.1 + 0.2 as e, 1.5 * 2 as f;
select greatest(id, age) as g, least(id, age) as l from people;

-- order and limit
select name, age from people order by age, name;
select name, age from people order by age desc, name desc;
select name, age from people order by age nulls first, name;
select name, city from people order by city, name limit 3;
select name from people order by name limit 2 offset 3;
select name from people order by length(name), name;
select name as n from people order by n desc limit 4;
select name, age from people order by 2 desc, 1;
select age from people order by name limit 5;
select name from people order by age + id desc nulls last, name;
select city, count(*) as c from people group by city order by count(*) desc, city;
select id from people order by id limit 0;

-- groups
select city, count(*) as n, sum(age) as s, min(age) as lo, max(age) as hi, avg(age) as mean from people group by city;
select count(*) as c from people;
select count(*), count(age), count(distinct city) from people;
select city, age > 30 as old, count(*) as c from people group by city, age > 30;
select age > 30, sum(salary) as s from people group by 1;
select upper(city) as u, count(*) as n from people group by u;
select upper(city) as u, count(*) as n from people group by upper(city);
select sum(age) as s from people where age > 1000;
select city from people group by city having count(*) > 1;
select city, sum(age) as s from people group by city having sum(age) > 50 and city is not null;
select city, max(age) - min(age) as span, sum(salary) / count(*) as mean from people group by city;
select count(*) filter (where age > 30) as old, sum(age) filter (where city = 'Ur') as ur from people;
select city, count(distinct age) as d, count(age) as n from people group by city;
select sum(amount * 2) + 1 as s from sales;
select min(name) as lo, max(born) as hi from people;
select city, city as c2, count(*) as n from people group by city;
select 1 as one, count(*) as n from people group by one;
select person, sum(amount) as total from sales group by person order by total desc, person limit 3;
select avg(total) as mean from (select person, sum(amount) as total from sales group by person) t;
select max(n) as most from (select city, count(*) as n from people group by city);
select count(*) as n from (select distinct city from people);
select min(distinct age) as lo, max(distinct age) as hi from people;
select sum(case when age > 30 then 1 else 0 end) as old from people;
select bool_col, count(*) as n from edge group by bool_col;

-- joins
select p.name, s.amount from people p join sales s on p.id = s.person;
select p.name, s.amount from people p, sales s where p.id = s.person and s.amount > 10;
select p.name, s.amount from people p left join sales s on p.id = s.person;
select p.name, s.amount, s.person from people p left join sales s on p.id = s.person and s.amount > 10;
select p.name, s.amount, s.person from people p right join sales s on p.id = s.person;
select p.name, s.amount, p.id, s.person from people p full join sales s on p.id = s.person;
select * from people join cities using (city);
select * from people left join cities using (city);
select * from people right join cities using (city);
select * from people full join cities using (city);
select city, name, river from people full join cities using (city);
select name from people p left join cities c using (city) where c.city is null;
select * from people p join cities c using (city) join sales s on s.person = p.id;
select p.name, c.river from people p left join cities c using (city);
select p.name, c.city, c.river from people p full outer join cities c on p.city = c.city;
select a.name, b.name as other from people a join people b on a.city = b.city and a.id < b.id;
select a.name, b.name, c.river from people a join people b on a.city = b.city join cities c on b.city = c.city where a.id <> b.id;
select p.name, s.amount from people p join sales s on p.id = s.person and s.amount > p.age;
select p.name, c.city from people p cross join cities c;
select p.name, c.city from people p, cities c where p.age > c.founded + 3830;
select p.name, s.amount from people p join sales s on p.id + 1 = s.person + 1;
select count(*) as n from people p join sales s on p.id = s.person join cities c on c.city = p.city;
select p.name, count(s.amount) as n, sum(s.amount) as total from people p left join sales s on s.person = p.id group by p.name;
select p.city, c.city from people p join cities c on p.city = c.city and p.city = c.city;
select a.id, b.id, c.id from people a left join people b on a.id = b.id + 1 left join people c on b.id = c.id + 1;
select l.person, r.person from sales l join sales r on l.person = r.person and l.day < r.day;
select * from (select id, name from people) a join (select person as id, amount from sales) b using (id);
select p.name from people p natural join (select id, age from people where age > 30) q;
select t.id, t.city, u.city as other from people t join people u on t.id = u.id where u.city is not null;

-- subqueries
select name from people where id in (select person from sales);
select name from people where id not in (select person from sales where person is not null);
select name from people where id not in (select person from sales);
select name from people where city not in (select city from cities where river = 'none');
select name from people where city not in (select city from cities);
select name from people p where exists (select 1 from sales s where s.person = p.id and s.amount > 20);
select name from people p where not exists (select 1 from sales s where s.person = p.id);
select name from people where age > (select avg(age) from people);
select name, (select max(amount) from sales) as most from people;
select name, (select sum(amount) from sales s where s.person = p.id) as total from people p;
select name from people p where age = (select max(age) from people q where q.city = p.city);
select name from people p where (select count(*) from sales s where s.person = p.id) > 1;
select name from people where age > 50 or id in (select person from sales where amount > 20);
select name from people p where age > 50 or exists (select 1 from sales s where s.person = p.id);
select name from people where not (id in (select person from sales where person is not null));
select (select count(*) from people) as a, (select count(*) from sales) as b;
select name from people where age > (select age from people where id = -1);
with old as (select * from people where age > 30) select city, count(*) as n from old group by city;
with a as (select id from people), b as (select id from a where id > 2) select * from b order by id;
with t (x, y) as (select id, age from people) select x + y as z from t;
with t as (select city, count(*) as n from people group by city) select a.city, b.n from t a join t b on a.city = b.city;

-- sets
select id from people union all select person from sales;
select id from people union select person from sales;
select city from people union select city from cities;
select city from people intersect select city from cities;
select city from people except select city from cities;
select id, name from people where id < 3 union all select person, 'x' from sales order by 1, 2;
select 1 as a union all select 2 union all select 3;
select age from people union all select amount from sales;
select city from people intersect select city from people where age > 30;
values (1, 'a'), (2, 'b'), (3, null);
select * from (values (1, 'a'), (2, 'b')) as t (n, s) where n > 1;
select p.name, v.label from people p join (values (1, 'first'), (2, 'second')) as v (id, label) on p.id = v.id;
select id from people except all select person from sales;
select count(*) as n from (select id from people union all select id from people);

-- types and edges
select * from edge where f = 'nan'::double;
select min(f) as lo, max(f) as hi, count(f) as n from edge;
select d, sum(dec) as s from edge group by d;
select dec * 2 as x, dec + 0.01 as y, dec / 2 as z from edge;
select ts, extract(hour from ts) as h, date_trunc('day', ts) as day from edge;
select count(*) as n from edge where ts >= '2024-01-01' and ts < '2024-07-01';
select bin from edge where bin is not null order by bin;
select i8 + i16 as s, u32 * 2 as u from edge where i8 between 0 and 100;
select "Mixed Case", "order" from edge;
select "Mixed Case" as "A b", count(*) as "count" from edge group by "Mixed Case";
select e.f, e2.f as g from edge e join edge e2 on e.f = e2.f;
select sum(i8) as s, avg(i8) as a, min(u32) as m from edge;
select cast(dec as varchar) as t, cast(ts as date) as d from edge;
select count(distinct f) as n, count(distinct dec) as m from edge;
select d from edge where d between '2024-01-01' and '2024-12-31';
select bool_col and i8 > 0 as b, not bool_col as n from edge;
select null as nothing, id from people;

-- windows
select name, row_number() over (order by id) as n from people;
select name, city, row_number() over (partition by city order by id) as n from people;
select name, rank() over (order by age) as r, dense_rank() over (order by age) as d from people;
select name, percent_rank() over (order by age) as p, cume_dist() over (order by age) as c from people;
select id, ntile(3) over (order by id) as t from people;
select id, ntile(20) over (order by id) as t from people;
select id, lag(age) over (order by id) as a, lead(age) over (order by id) as b from people;
select id, lag(age, 2, -1) over (order by id) as a, lead(age, 3, id) over (order by id) as b from people;
select id, lag(age, 0) over (order by id) as a, lag(age, -1) over (order by id) as b from people;
select id, lag(city, 1 ignore nulls) over (order by id) as a from people;
select id, first_value(name) over (partition by city order by id) as f, last_value(name) over (partition by city order by id) as l from people;
select id, last_value(name) over (partition by city order by id rows between unbounded preceding and unbounded following) as l from people;
select id, first_value(age ignore nulls) over (order by id desc) as f, last_value(age ignore nulls) over (order by id) as l from people;
select id, nth_value(name, 2) over (order by id) as n from people;
select id, sum(age) over (order by id) as s, count(age) over (order by id) as c, avg(age) over (order by id) as a from people;
select id, sum(age) over (partition by city) as s, count(*) over (partition by city) as c from people;
select id, sum(age) over () as s, max(name) over () as m from people;
select id, sum(id) over (order by age) as s from people;
select id, sum(age) over (order by id rows between 1 preceding and 1 following) as s from people;
select id, sum(age) over (order by id rows 2 preceding) as s from people;
select id, min(age) over (order by id rows between 2 preceding and 1 preceding) as s from people;
select id, max(salary) over (order by id rows between current row and 2 following) as s from people;
select id, count(*) over (order by id rows between 3 following and 5 following) as s from people;
select id, sum(salary) over (order by id rows between unbounded preceding and 1 preceding) as s from people;
select id, sum(id) over (order by age range between 5 preceding and 5 following) as s from people;
select id, sum(id) over (order by age desc range between 8 preceding and current row) as s from people;
select id, sum(id) over (order by age nulls first range between 5 preceding and 5 following) as s from people;
select id, count(*) over (order by born range between interval '10' year preceding and current row) as s from people;
select id, sum(id) over (order by salary range between 20.5 preceding and current row) as s from people;
select id, sum(id) over (order by age groups between 1 preceding and 1 following) as s from people;
select id, count(*) over (order by city, age) as s from people;
select id, sum(age) filter (where age > 30) over (order by id) as s from people;
select id, sum(age) over w as s, rank() over w as r from people window w as (partition by city order by age);
select city, sum(n) over (order by city) as running from (select city, count(*) as n from people group by city) t;
select city, count(*) as n, rank() over (order by count(*) desc) as r from people group by city;
select * from (select name, city, rank() over (partition by city order by age desc) as r from people) t where r = 1;
select person, amount, sum(amount) over (partition by person order by day) as running from sales;
select person, amount, amount - lag(amount) over (partition by person order by day) as change from sales;
select row_number() over (order by f) as n, f from edge where f is not null;
select d, rank() over (partition by d order by i8) as r, sum(dec) over (partition by d order by i8) as s from edge;
select bool_col, min(bin) over (partition by bool_col) as m from edge;
select sum(u32) over (order by "order") as s, avg(dec) over (order by "order") as a from edge;
select id, row_number() over (order by age nulls first, id) as n from people order by n;
select name, sum(amount) over (partition by name order by amount) as s from people p join sales s on p.id = s.person;

-- grouping sets
select city, age, count(*) as n from people group by grouping sets ((city), (age), ());
select city, sum(age) as s from people group by rollup (city);
select city, age > 30 as old, count(*) as n, sum(salary) as s from people group by rollup (city, age > 30);
select city, age, count(*) as n from people group by cube (city, age);
select city, grouping(city) as g, count(*) as n from people group by rollup (city) having count(*) > 1;
select city, age, grouping(city, age) as g, max(id) as m from people group by cube (city, age) order by g, city, age;
select city, age, count(*) as n from people group by city, rollup (age);
select city from people group by grouping sets ((city), ());
select city, count(*) as n from people where id < 0 group by rollup (city);

-- variances
select city, stddev(age) as s, variance(age) as v, stddev_pop(age) as sp, var_pop(age) as vp from people group by city;
select stddev(salary) as s from people;
select var_samp(dec) as v, stddev(i8) as s from edge;
select stddev(age) / avg(age) as c from people;
select variance(age) as v from people where id = 1;
select variance(age) as v from people where id < 0;
select city, bool_and(age > 30) as a, bool_or(age > 30) as o from people group by city;

-- found by others
select city as a, city as b, max(id) as m from people group by 1, 2;
select coalesce(city, 'x') as p, coalesce(city, 'x') as q, count(*) as n from people group by 1, 2;
select city, min(name) as m from people group by city, rollup (city);
select name from people p where age not in (select amount from sales s where s.person = p.id);
select name from people p where age not in (select amount from sales s where s.person < p.id);
select name from people p where not (city in (select city from cities c where c.founded < p.age));
select id from people p where city not in (select c.city from cities c where c.river <> 'none' and c.city is not null and p.age > 20);
select count(*) as n from (values (1), (cast(null as int))) x (p), (values (1), (cast(null as int))) y (p), (values (1), (cast(null as int))) z (p) where x.p = y.p and z.p is not distinct from x.p;
select null as z except select null as z;
select id, null as z from people intersect select id, null as z from people;
select id, null as z from people except select id, age from people;
select bool_col is distinct from true and i8 > 0 as x from edge;
select id from people where age is not distinct from 41 and id > 1;
select p.id, q.id as other from people p join people q on p.city is not distinct from q.city and p.age is not distinct from q.age;
select coalesce(id, 1) as x from people union all select coalesce(age, 1) from people;
select coalesce(age, 2) as g, count(*) as n from people group by rollup (coalesce(age, 2));
select s.person, count(*) as n from people p join sales s on p.id = s.person group by rollup (s.person);
select p.id from people p join edge e on p.salary = e.i8;
select p.id, e.dec from people p join edge e on p.id = e.dec + 0.9;
select f from edge where f < 2 union select dec from edge;
select id from people where id in (select person from sales where person is not null and amount > 5) or id in (select id from people where age > 40);
select city, avg(case when name = '' then id else 1 end) as p, sum(id) + 1 as q from people group by city, rollup (age);
select (select max(age) from people) as m, (select id from people where name = 'Ea') as e, (select id from people where name = 'none') as n;
select age as "a""b", count(*) as "x""y" from people group by 1;
select avg(dec) as m from edge union all select max(dec) from edge;
select id from people where id > 2 and age is distinct from 41 or city = 'Kish';
select id from people where not age is distinct from 41 or id = 1;
select id from people where age is distinct from 41 or city is distinct from 'Ur' and id > 2;
select age from people p where not exists (select 1 from sales s where p.age = p.age and s.person is not null);

-- medians and quantiles
select city, median(age) as m, quantile_cont(age, 0.9) as q, quantile_disc(age, 0.5) as d from people group by city;
select median(salary) as m, median(i) as k from (select salary, id as i from people) p;
select percentile_cont(0.25) within group (order by salary) as a, percentile_cont(0.25) within group (order by salary desc) as b from people;
select percentile_disc(0.25) within group (order by salary) as a from people;
select median(f) as m from edge where f > -1 and f < 10;
select median(dec) as m, quantile_cont(i8, 0.3) as q from edge;
select median(age) as m from people where id < 0;
select city, median(age) filter (where id > 2) as m from people group by city;
select quantile_disc(name, 0.5) as m from people;
select median(born) as m from people;
select mode(city) as m, mode(age) as a from people where age = 41;
select mode() within group (order by age) as a from people where age > 40;

-- lists and texts
select array_agg(id order by id) as l from people;
select city, array_agg(age order by age desc nulls last) as l, count(*) as n from people group by city;
select city, array_agg(name order by born nulls first, name) as l from people group by city;
select array_agg(age order by id) filter (where id > 3) as l, array_agg(id) filter (where id > 100) as n from people;
select array_agg(distinct city order by city) as l from people;
select array_agg(distinct age order by age desc nulls last) as l from people;
select city, string_agg(name, ', ' order by name) as s from people group by city;
select string_agg(name, '' order by id desc) as s, string_agg(name) filter (where id = 1) as t from people;
select string_agg(distinct city, '/' order by city) as s from people;
select list(id order by salary) as l from people where salary is not null;
select group_concat(name, '+' order by id) as g from people;

-- first and last, extremes by another column
select city, first(name order by id) as f, last(name order by id) as l from people group by city;
select first(age order by born desc nulls last) as f, last(age order by id) as l from people;
select city, arg_min(name, age) as a, arg_max(name, age) as b from people where age is not null and id <> 6 group by city;
select max_by(name, salary) as a, min_by(name, salary) as b from people;
select arg_max(age, id) as a from people where id < 4;
select any_value(age) as a from people where id in (1, 3) group by city;
select distinct on (city) city, name from people order by city, id;
select distinct on (city, age) city, age, id from people order by city, age, id desc;

-- distinct arguments
select sum(distinct age) as s, avg(distinct age) as a, count(distinct age) as n, min(distinct age) as l from people;
select city, sum(distinct age) as s, sum(age) as t from people group by city;
select sum(distinct dec) as s, stddev(distinct i8) as d from edge;
select sum(distinct age) filter (where id > 2) as s, count(distinct city) filter (where age > 30) as n from people;
select median(distinct age) as m from people;

-- pairs
select covar_pop(age, id) as a, covar_samp(age, id) as b, corr(age, id) as c from people;
select regr_slope(salary, age) as s, regr_intercept(salary, age) as i, regr_r2(salary, age) as r from people;
select regr_avgx(salary, age) as x, regr_avgy(salary, age) as y, regr_sxx(salary, age) as sx, regr_syy(salary, age) as sy, regr_sxy(salary, age) as sxy from people;
select corr(age, age) as c, covar_pop(age, 1) as z from people where id < 3;
select covar_pop(age, id) as c from people where id < 0;

-- bits, products, conditions
select bit_and(age) as a, bit_or(age) as o, bit_xor(age) as x from people;
select city, bit_or(id) as o from people group by city;
select bit_and(i8) as a, bit_or(i16) as b, bit_xor(i8) as x from edge;
select product(age) as p from people where id < 6;
select count_if(age > 30) as c, count_if(city = 'Ur') as u from people;
select bit_and(age) as a from people where id < 0;

-- estimates of few values are exact
select approx_count_distinct(city) as n from people;

-- over aggregates, and of aggregates
select city, median(age) + 1 as m, string_agg(name, ',' order by id) || '!' as s from people group by city having median(age) > 20;
select max(m) as x from (select city, median(age) as m from people group by city) t;
select count(*) filter (where age > 30) as n, sum(age) filter (where city = 'Ur') as s from people;
select city, count(*) filter (where age > 30) as n from people group by rollup (city);

-- functions that are written as expressions over others
select sign(i8) as a, mod(i8, 3) as b, if(i8 > 0, 'p', 'n') as c, ifnull(i8, 0) as d from edge;
select xor(i16, 5) as x from edge;
select i16 & 7 as a, i16 | 8 as b from edge where i16 > 0;
select year(born) as y, quarter(born) as q, month(born) as m, day(born) as d, dayofweek(born) as w, dayofyear(born) as n, week(born) as k, isodow(born) as i from people;
select hour(ts) as h, minute(ts) as m, second(ts) as s, epoch(ts) as e, epoch_ms(ts) as ms from edge;
select century(born) as c, decade(born) as d, millennium(born) as m from people;
select dayname(born) as d, monthname(born) as m, strftime(born, '%Y/%m') as s, last_day(born) as l from people;
select date_diff('day', born, date '2024-03-01') as d, datediff('month', born, date '2024-03-01') as m, date_diff('year', born, date '2024-03-01') as y, date_diff('week', born, date '2024-03-01') as w, date_diff('quarter', born, date '2024-03-01') as q from people;
select date_diff('hour', ts, timestamp '2024-06-01 13:45:10') as h, date_diff('minute', ts, timestamp '2024-06-01 13:45:10') as m, date_diff('second', ts, timestamp '2024-06-01 13:45:10') as s from edge;
select lcase(name) as l, ucase(name) as u, len(name) as n, strlen(name) as b, prefix(name, 'A') as p, suffix(name, 'a') as s, instr(name, 'a') as i from people;
select regexp_matches(name, '^[A-E]') as r, regexp_full_match(name, '[A-Z][a-z]+') as f, regexp_extract(name, '([A-Z])([a-z]+)', 2) as e, regexp_extract(name, 'n') as g from people;
select name similar to '[A-E][a-z]+' as s, name not similar to 'Ea|Bel' as n from people;
select isinf(f) as i, isfinite(f) as n, isnan(f) as a from edge;
select cast(ts as varchar) as t, cast(ts as varchar) || '!' as u from edge;
select cast(dec as boolean) as b from edge;
select cast(f as real) as r from edge;
select try_cast(1e300 as real) as r, cast(1e10 as real) as s;
select cast(ts as time) as t from edge;
select x from (values (-1e100), (2.5)) v (x);
select 1e3 as a, -1.5e-2 as b, id * 1e0 as c from people where id = 1;

-- forms that the planner does not know
select (age is null) = (city is null) as k from people;
select (not (age > 30)) is null as k, - -5 as b, -(-age) as c, - (age - 70) as d from people;
select (age in (30, 41)) = (city like 'U%') as k, (age between 1 and 40) <> (id > 3) as m from people;
select id from people where (age > 30 or city is null) is true;
select i16 // 7 as y from edge;
select x from (values (-1e100), (2.5)) v (x);
select x from (values (1.5), (22.25), (-3)) v (x);
select x from (values (cast('nan' as double)), (1.0)) v (x);
select * from (values (1), (1), (2)) a (x) intersect all select * from (values (1), (3)) b (x);
select * from (values (1), (1), (2)) a (x) except all select * from (values (1), (3)) b (x);
select city from people intersect all select city from people where id > 3;
select city, age from people except all select city, age from people where id in (1, 2, 4);
select sum(x) over (w order by x) as s from (values (1, 1), (2, 1), (3, 2)) t (x, g) window w as (partition by g);
select x, sum(x) over (w rows between 1 preceding and current row) as s from (values (1, 1), (2, 1), (3, 2), (5, 1)) t (x, g) window w as (partition by g order by x);
select id, id in (select person from sales) as i from people;
select id, id not in (select person from sales where person is not null) as i, exists (select 1 from sales s where s.person = p.id) as e from people p;
select id, age in (select amount from sales where amount > 1000) as i, age in (select amount from sales) as j from people;
select id, not exists (select 1 from sales s where s.person = p.id and s.amount > 10) as e, case when id in (select person from sales) then 'y' else 'n' end as c from people p;
select (select max(id) from people) in (select person from sales) as x;
select id from people p where exists (select 1 from sales s join cities c on c.city = p.city where s.person = p.id);
select id, (select river from cities c where c.city = p.city) as r from people p;
select id, (select amount from sales s where s.person = p.id order by day desc limit 1) as last from people p;
select id, (select s.amount + 1 from sales s where s.person = p.id order by s.amount limit 1) as l from people p;
select id from people where age > all (select amount from sales where person = 1);
select id from people where age = any (select amount from sales);
select id from people where age >= some (select amount from sales where amount is not null);
select id from people where age <> all (select amount from sales where amount is not null);
select p.id from people p semi join sales s on p.id = s.person;
select p.id from people p anti join sales s on p.id = s.person;
select id from people order by id fetch first 2 rows only;
select a = 'a' as x from (values (null)) t (a);
select id, (select count(*) from sales s where s.person = p.id) as n from people p;
select id << 2 as a, id >> 1 as b from people;
select case when a = 'a' then 1 else 2 end as x from (values (null)) t (a);

-- lists and unnest
select [1, 2, 3] as l, [1, 2, 3][2] as e, [id, age] as p from people;
select array_length([1, 2]) as n, array_has([1, 2, id], 3) as h, list_concat([1], [id]) as c from people;
select array_agg(id order by id)[1] as f from people;
select id, unnest([id, age]) as u from people;
select u from (select unnest([1, 2, 3]) as u) t where u > 1;
select l, unnest(l) as x from (select [1, 2] as l, 7 as k union all select [3], 8) t;
select unnest(l) as x, count(*) as n from (select [1, 2, 2] as l) t group by 1;
select city, unnest(n) as name from (select city, array_agg(name order by name) as n from people group by city) t;
select * from unnest([10, 20]) as t (x);
select {'a': 1, 'b': 'x'} as s;
select s.a + 1 as y from (select {'a': id, 'b': 'x'} as s from people) t;
select range(1, 4) as r, list_sort([3, 1, 2]) as s, list_distinct([1, 1]) as d;
select array_to_string(['a', 'b'], ',') as t, string_to_array('a,b', ',') as u;
select id from people p where exists (select 1 from sales s join cities c on c.city = p.city where s.person = p.id);

-- nulls of marks, conditions above totals
select x from (values (1),(7)) t(x) where x = 1 or x not in (select y from (values (2),(null)) u(y));
select id from people where id = 1 or not (age in (select amount from sales));
select id from people where id = 1 or age in (select amount from sales);
select id from people where (age in (select amount from sales)) is null;
select id from people where id > 2 and (id = 3 or age not in (select amount from sales where amount is not null)) and id in (select id from people);
select c, n from (select x as c, count(*) as n from (values (1),(2)) t(x) group by cube (x)) u where c = 1;
select * from (select count(*) as n from people) u where 1 = 0;
select * from (select 1 as a, count(*) as n from people) u where a = 2;
select (x is not distinct from y) is not null as k from (values (1, 2)) t(x, y);
select array_agg(id order by id)[1] as f from people;
select city, age from people where id < 4 order by all;
select * from people where id > 2 order by all;
from people order by all desc limit 4;
select -id as low, * from people where id < 7 order by all;
with p as (select city, id from people) select * from (select * from p order by all limit 3) q order by all desc;
select id, city from people where id < 3 union all select * from (select id, city from people where id > 5) u order by all desc;
select id, bool_and(age > 20) over (partition by city) as b, bool_or(age > 40) over (order by id) as o from people;
select max(age) as m from people having max(age) > 1000;
select count(*) as n from people having 1 = 0;

-- found by others, again
select sum(distinct age) as s, avg(distinct age) as a from people where id < 0;
select city, sum(distinct age) filter (where id > 6) as s from people group by city;
select median(x) as m from (values (cast(1 as double)), (2), (cast('inf' as double))) t (x);
select percentile_disc(0.9) within group (order by x desc) as p, quantile_disc(x, 0.07) as q, last(x order by x) as l from (select unnest(range(1, 101)) as x) t;
select len([1, 2, 3]) as l, len('abc') as s;
select id from people where not (age > all (select amount from sales where amount < 20));
select id from people where not (age <= any (select amount from sales));
select 0.1::double + 0.2::double = 0.3::double as e;
select count(*) as n, sum(x) as s, min(k) as k from (select 1 as k, unnest(range(300000)) as x) t;
select l.d, r.t from (values (date '2024-01-01')) l(d) join (values (timestamp '2024-01-01 00:00:00'), (timestamp '2024-01-01 01:00:00')) r(t) on l.d = r.t;
select id from people order by id limit 1 + 1;
from people;
select l, unnest(l) as x, unnest([7]) as y from (select [1, 2] as l) t;
select [1, 2] || [id] as l, [cast(1 as smallint)] || [cast(2 as bigint)] as m from people;
select unnest([1, 2] || [3]) as x;
select cast([1, 2] as double[]) as l;
select x from (select unnest(array_agg(age order by age)) as x from people) t;

-- every aggregate over frames
select id, median(salary) over (order by id rows between 2 preceding and 2 following) as m from people;
select id, count(distinct city) over (order by id) as n, sum(distinct age) over (order by id) as s from people;
select id, array_agg(name) over (partition by city order by id) as names from people;
select id, string_agg(name, '|') over (order by id rows between 1 preceding and current row) as names from people;
select id, mode(city) over (order by id rows between 3 preceding and current row) is null as m from people;
select id, arg_max(name, age) over (order by id) as oldest, arg_min(name, age) over (order by id rows 2 preceding) as y from people;
select id, quantile_cont(age, [0.25, 0.75]) over (order by id) as q, histogram(city) over (order by id) as h from people;
select id, count(*) filter (where age > 30) over (order by id) as n, array_agg(id) filter (where age > 30) over (order by id) as l from people;
select id, covar_pop(age, salary) over (partition by city) as c, approx_count_distinct(city) over () as a from people;

-- aggregates of DuckDB
select quantile_cont(age, [0.25, 0.5]) as q, quantile_disc(age, [0.1, 0.9]) as d from people;
select city, max(age, 2) as two, min(name, 2) as names from people group by city;
select arg_max(name, age, 3) as oldest, arg_min(name, age, 2) as youngest from people where age <> 41;
select histogram(city) as h, entropy(city) as e, mad(age) as m from people;
select skewness(age) as s, kurtosis(age) as k, kurtosis_pop(age) as p, geomean(age) as g, fsum(salary) as f from people;
select string_agg(born, ' ' order by id) as b, string_agg(name, chr(10) order by id) as n from people;

-- lists and structs as keys
select l, count(*) as n from (select [age, id % 2] as l from people) t group by l;
select distinct s from (select {'city': city, 'odd': id % 2} as s from people) t;
select min(l) as a, max(l) as b, count(distinct l) as n from (select [id % 3, id] as l from people) t;
select [id % 2] as l from people union select [person % 2] from sales where person is not null;
select id, row_number() over (partition by [id % 2] order by id) as r from people;

-- functions of DuckDB
select strptime('02.03.2026 16:05', '%d.%m.%Y %H:%M') as t, try_strptime('x', '%Y') as u, strftime(born, '%-d %B %y, %j, %U %W %V %G') as s from people;
select time_bucket(interval '2 months', born) as b, time_bucket(interval '10 days', born) as d from people;
select date_sub('month', born, date '2024-01-30') as m, date_diff('month', born, date '2024-01-30') as n, date_sub('year', born, date '2024-02-29') as y from people;
select timestamp '2024-07-01 12:00:00' at time zone 'Europe/Berlin' as i;
select (timestamp '2024-07-01 12:00:00' at time zone 'UTC') at time zone 'Asia/Tokyo' as l;
select epoch_us(born) as u, epoch_ms(cast(id as bigint)) as m, make_timestamp(2024, 2, 29, 1, 2, 3.5) as t from people;
select string_split(name, 'a') as s, regexp_extract_all(name, '[a-z]+') as r, md5(name) as m, sha256(name) as h from people;
select hex(name) as h, to_base64(unhex(hex(name))) as b, url_encode(name) as u, jaccard(name, 'Adad') as j from people;
select '{"a": {"b": [1, 2.5, "x"]}}' -> '$.a.b[1]' as n, '{"a": "x"}' ->> 'a' as t, json_type('[]') as k, json_keys('{"a": 1, "b": 2}') as l;
select list_sort([3, null, 1]) as s, list_median([1, 2, 4]) as m, list_aggregate([1, 2], 'count') as n, list_unique([1, 1, null]) as u;
select map {'a': 1}['a'] as v, struct_pack(a := 1, b := id) as s from people;
select date_part('decade', born) as d, date_part('yearweek', born) as w, date_part('dayofweek', born) as k from people;
-- subqueries that name columns around them, reshaping, rows as values
select id, (select max(s.amount) from sales s where s.person < p.id) as m from people p;
select id, (select count(*) from sales s where s.person < p.id) as m from people p;
select id, (select sum(s.amount) from sales s where s.person < p.id and s.amount > p.age) as m from people p;
select sum((select max(s.amount) from sales s where s.person = p.id)) as x from people p;
select sum((select max(s.amount) from sales s where s.person < p.id)) as x from people p;
select id from people p order by (select max(s.amount) from sales s where s.person = p.id), id;
select id from people p order by (select max(s.amount) from sales s where s.person < p.id), id;
select id from people p where exists (select 1 from sales s where s.person = p.id and exists (select 1 from cities c where c.city = p.city));
select id from people p where exists (select 1 from sales s where s.person = p.id and s.amount > (select avg(amount) from sales t where t.person = p.id));
select id, (select count(*) from sales s where s.person = p.id and s.amount = (select max(amount) from sales t where t.person = p.id)) as n from people p;
select id, (select count(*) from sales s where s.person = p.id and s.amount >= (select min(t.amount) from sales t where t.person < p.id)) as n from people p;
select id from people p where age > (select avg(q.age) from people q where q.id < p.id);
select id from people p where age in (select s.amount from sales s where s.person < p.id);
select id from people p where age not in (select q.age from people q where q.id < p.id and q.age is not null);
select p.id, s.amount from people p join sales s on s.person = p.id and p.id in (select person from sales where amount > 10);
select p.id, s.amount from people p left join sales s on s.person = p.id and exists (select 1 from cities c where c.city = p.city);
select p.id, s.amount from people p left join sales s on s.person = p.id and s.amount in (select max(amount) from sales);
select id, (select x from (values (1,10),(2,20),(99,1),(99,2)) t(k,x) where t.k = p.id) as v from people p;
select id, (select p.id + 1) as v from people p;
select id, (select max(s.amount + p.id) from sales s) as v from people p;
select id, (select max(s.amount) from sales s where s.person = p.id or s.person = 1) as v from people p;
select city, (select max(river) from cities c where c.city = p.city) as n from people p group by city;
select id, (select s.amount from sales s where s.person < p.id order by s.amount desc limit 1) as x from people p;
select id from people p where (select count(*) from sales s where s.person = p.id) > 1;
select id, case when age > 30 then (select max(s.amount) from sales s where s.person <> p.id) end as x from people p;
select id, exists (select 1 from sales s where s.person < p.id) as e, age in (select s.amount from sales s where s.person < p.id) as i from people p;
select id, (select sum(amount) from (select amount from sales s where s.person = p.id order by amount desc limit 2) t) as x from people p;
select id, (select count(distinct s.amount) from sales s where s.person <= p.id) as x from people p;
select id, (select string_agg(cast(s.amount as varchar), ',' order by s.amount) from sales s where s.person <= p.id) as x from people p;
select id from people p where (select count(*) from sales s where s.person > p.id) > (select count(*) from sales s where s.person < p.id);
select id, (select count(*) from sales s where s.person < p.id having count(*) > 2) as c from people p;
select id, (select x.m from (select person, max(amount) as m from sales where person <= p.id group by person order by m desc limit 1) x) as v from people p;
select id, (select amount from (select amount, row_number() over (order by amount desc) as r from sales s where s.person <= p.id) t where r = 2) as v from people p;
select id, exists (select 1 from sales s where s.person = p.id union all select 1 from cities c where c.city = p.city and c.founded < -3500) as e from people p;
select id from people p where exists (select 1 from sales s left join cities c on c.city = p.city where s.person = p.id and c.river is not null);
select id, (select count(*) from people q join sales s on q.id = s.person and q.age > p.age) as n from people p;
select id, (select count(*) from people q left join sales s on q.id = s.person and s.amount > p.age) as n from people p;
select id, (select list(s.amount order by s.amount) from sales s where s.person < p.id) as l from people p where id < 4;
select p.id, x.amount from people p join lateral (select * from sales s where s.person < p.id order by s.amount desc nulls last, s.day limit 2) x on true;
select p.id, x.n from people p left join lateral (select count(*) as n from sales s where s.person > p.id) x on x.n > 2;
select p.id, x.c from people p cross join lateral (select c.city || p.name as c from cities c where c.city = p.city) x;
select id from people where id = (select max(person) from sales where person <= people.id);
select count(*) as n from people p where p.salary > (select avg(q.salary) from people q where q.city is not distinct from p.city);
select id, (select max(amount) from sales where person = id) as m, (select min(amount) from sales where person > id) as k from people order by m nulls first, id;
select city, count(*) filter (where exists (select 1 from sales s where s.person = p.id)) as n from people p group by city;
select id, sum((select count(*) from sales s where s.person = p.id)) over (order by id) as r from people p;
select exists (select 1 from sales s where s.person = p.id) as e, count(*) as n from people p group by 1;
select id from people p order by exists (select 1 from sales s where s.person = p.id), id;
select p.id, q.id as j from people p full join people q on p.id = q.id + 1 and exists (select 1 from sales s where s.person = q.id);
select id from people p where age > any (select amount from sales s where s.person <= p.id);
select id from people p where age >= all (select amount from sales s where s.person < p.id and amount is not null);
select p.id, (select max(x) from (select s.amount as x from sales s where s.person = p.id union all select c.founded from cities c where c.city = p.city) t) as m from people p;
select p.id, (select string_agg(c.river, '+' order by c.river) from cities c where c.founded < -1000 * p.id) as r from people p;
select id, (select p.age) as a, (select p.age where p.id > 3) as b from people p;
select id from people p where p.id in (select s.person from sales s where s.amount > (select avg(t.amount) from sales t where t.person = s.person and p.age > 1));
select p.id, s.amount, s.day from people p asof left join sales s on p.id = s.person and p.age >= s.amount order by 1;
select p.id, s.amount from people p asof join sales s on p.id = s.person and s.amount < p.age;
select p.id, s.amount from people p asof join sales s on p.id = s.person and p.age <= s.amount;
select p.id, s.amount from people p asof left join sales s on p.id = s.person and p.age < s.amount;
select p.id, s.amount from people p asof left join sales s on p.age > s.amount;
select p.id, s.amount from people p asof join sales s on p.age >= s.amount;
select p.name, s.amount, p.born, s.day from people p asof join (select *, day - interval 40 year as d2 from sales) s on p.born >= s.d2;
select a.t, b.t as u from (values (1), (2), (3), (null)) a(t) asof left join (values (2, null), (1, 5), (null, 7)) b(t, x) on a.t >= b.t;
select a.k, a.t, b.x from (values ('a', 1.5), ('a', 2.0), (null, 3.0)) a(k, t) asof left join (values ('a', 2, null), ('a', 1, 'x'), (null, 1, 'y')) b(k, t, x) on a.k = b.k and a.t >= b.t;
select a.k, a.t, b.x from (values ('a', 1.5), ('a', 2.0), (null, 3.0)) a(k, t) asof join (values ('a', 2, null), ('a', 1, 'x'), (null, 1, 'y')) b(k, t, x) on a.k = b.k and a.t > b.t;
select count(*) as n, sum(b.n) as s from (select n * 2 as n, n % 7 as k from range(1000) t(n)) a asof join (select n * 3 as n, n % 7 as k from range(500) t(n)) b on a.k = b.k and a.n >= b.n;
select * from range(3) a asof join range(1, 10, 2) b on a.range >= b.range;
select * from sales pivot (sum(amount) for person in (1, 2));
select * from sales pivot (sum(amount) as s, count(*) as n for person in (1, 2 as two));
select * from sales pivot (sum(amount), count(*) for person in (1, 2));
select * from (select person, amount from sales) pivot (sum(amount) for person in (1, 5));
select * from (select city, name, age from people) pivot (max(age) for city in ('Ur', 'Kish')) order by name;
pivot (select city, age, id % 2 as k from people) on city in ('Ur', 'Kish') using sum(age) group by k;
pivot (select city, age, id % 2 as k from people) on city in ('Ur', 'Kish') using sum(age) as s, count(*) as n group by k order by k;
unpivot (select id, age, salary from people) on age, salary;
select * from people unpivot include nulls (v for n in (age, salary as sal)) order by id;
select * from (select id, age, salary from people) unpivot (v for n in (age, salary));
unpivot (select id, age, salary from people) on age, salary into name n value v;
select * from (select id, age, salary from people where id < 5) unpivot include nulls (v for n in (age, salary));
pivot (select city, age from people) on city in ('Ur', 'Kish', 'none') using max(age);
select * from (select city, age, id from people) pivot (count(*) for city in ('Ur', null));
select p.id, u.x from (select id, [id, age] as xs from people) p, unnest(p.xs) as u(x);
select p.id, x from (select id, [id, age] as xs from people) p cross join unnest(p.xs) as u(x);
select p.id, x from (select id, case when id > 2 then [id, age] end as xs from people) p left join unnest(p.xs) as u(x) on true;
select p.id, x from (select id, case when id > 2 then [id, age] end as xs from people) p, unnest(p.xs) as u(x) where x > 5;
select count(*) as n, sum(x) as s from (select range(0, id) as xs, id from people) p, unnest(p.xs) u(x) where x < p.id - 1;
select id from people where (age, id) > (30, 2) and (id, 1) not in (select person, 1 from sales where person is not null);
select id, (id, age) in (select person, amount from sales) as i, (id, age) not in (select person, amount from sales where person is not null and amount is not null) as n from people;
with a as (select 1 as x), b as (with a as (select 2 as x) select a.x from a) select a.x, b.x as y from a, b;
with t as (select 1 as x) select * from t, (with t as (select 2 as x) select * from t) u(y), t as v(z);
with people as (select 5 as id) select id from people;
select id from people where id not in (values (1), (2));
select id in (values (1), (null)) as x from people;
select * from generate_series(-3, 3, 2) as g;
select * from range(5, 0, -2) t(x);
select sum(x) as s, count(*) as n from range(1000000) t(x);
select * from range(0);
select a.range + b.range as s from range(2) a, range(3) b;
select id, r.range as k from people, range(2) r where id < 3;
select (1,2) = (1,3) as x, (1, 2) <> (1, 3) as c, (1, 2) <= (1, 2) as d, (2, 1) in ((1, 2), (2, 1)) as e;
select id from people where (id, city) in (select person, 'Ur' from sales);
select id from people where (id, age) in ((1, 30), (2, 41));
select id from people where (id, age) = (1, 30);
select id from people where (id, age) < (3, 30);
select id + 1 as a, a * 2 as b, a + b as c from people;
select id + 1 as a from people where a > 3;
select upper(name) as u, length(u) as l from people where l > 4 order by u;
select age as id, id + 1 as x from people;
select sum(b) as s from (select id * 2 as twice, twice + 1 as b from people) t;
select id, id = any (select person from sales) as x, age > all (select amount from sales where amount < 20) as y, age < any (select amount from sales) as z from people;
select id, age >= all (select amount from sales) as y, age = all (select 30) as e, age <> any (select age from people) as z from people;
select id from people where not (age > any (select amount from sales where amount is not null));
select sum(null) as s, avg(null) as a;
select id, age > any (select amount from sales s where s.person = p.id) as a from people p;
select p.id, x.* from people p left join lateral (select s.amount, s.day from sales s where exists (select 1 from cities c where c.city = p.city and c.founded < -100 * p.id)) x on true;
select p.id, x.* from people p cross join lateral (select s.amount, s.day from sales s where s.amount <= (select count(t.amount) from sales t where t.person <> p.id)) x;
select p.id from people p order by (select sum(s.amount) from sales s where s.amount > 1 and s.amount > p.age), p.id;
select p.name from people p order by exists (select 1 from cities c where c.city = p.city), p.id;
select x from (values (1), (null)) t(x) where x not in (select y from (values (1), (2)) u(y) where y = t.x);
select (select coalesce(min(q.k), -1) + 1 from (values (1, cast(2 as int))) q(id, k) where q.id = t.x) as c from (values (1), (9)) t(x);
select id from people p where age not in (select amount from sales s where s.person = p.id);
select id, age not in (select amount from sales s where s.person = p.id) as n from people p;

-- lambdas
select list_transform([id, age], lambda x: x + 1) as t, list_filter([id, age, 3], lambda x: x > 2) as f from people;
select list_transform([id, age], lambda x, i: x * i + p.id) as t from people p;
select list_transform([[1, 2], [id]], lambda x: list_transform(x, lambda y: y + len(x))) as t from people;
select list_reduce([1, 2, id], lambda a, x: a * 10 + x) as r, list_reduce([id], lambda a, x, i: a + x + i, 7) as s from people;
select id, list_filter(range(0, id), lambda n: n % 2 = 0 and 6 // n > 1) as f from people where id > 100;
select city, list_transform(list(name order by id), lambda name: upper(name)) as names from people group by city;
select id from people where len(list_filter([age, id], lambda age: age > 40)) = 1;
select list_filter(cast(null as int[]), lambda x: x > 1) as n, list_transform(cast([] as int[]), lambda x: x) as e;

-- values in text
select printf('%05d|%-6s|%.2f|%x', id, city, salary, id) as t from people;
select format('{} is {:,} {:>8}', name, age, city) as t from people;

-- frames that leave out rows
select id, sum(age) over (order by age rows between 2 preceding and 2 following exclude current row) as s from people;
select id, count(*) over (order by age groups between 1 preceding and 1 following exclude ties) as n from people;
select id, list(id) over (order by age, id rows between unbounded preceding and unbounded following exclude group) as l from people where id < 5;
select id, first_value(id) over w as f, last_value(id) over w as l, nth_value(id, 2) over w as n from people window w as (order by id rows between 1 preceding and 1 following exclude current row);
select id, max(age) over (partition by city order by id range between 3 preceding and 3 following exclude group) as m from people;
select id, count(distinct city) over (order by id rows between 3 preceding and current row exclude current row) as n, median(age) over (order by id rows between 3 preceding and 1 following exclude no others) as m from people;

-- recursive queries
with recursive t(n) as (select 1 union all select n + 1 from t where n < 20) select sum(n) as s, count(*) as c from t;
with recursive t(a, b) as (select 1, 2 union select b % 3, a % 3 from t) select * from t;
with recursive up as (select id, age, 0 as steps from people where id = 1 union all select p.id, p.age, u.steps + 1 from up u join people p on p.id = u.id + 1) select * from up;
with recursive t as (select id from people where id = 8 union all select id - 1 from t where id > (select min(id) from people)) select count(*) as n from t;
with recursive a(x) as (select 1 union all select x + 1 from a where x < 3), b(y) as (select x from a union all select y + 10 from b where y < 20) select y, count(*) as n from b group by y;
with recursive t(x) as (select cast(null as int) union select x from t) select * from t;

-- types and operators by other names
select cast(id as ubigint) as u, cast('7' as hugeint) as h, cast(born as timestamp_s) as t from people;
select true = 1 as a, id > '3' as b, 'true' = (id > 3) as c from people;
select born + interval (id) day as d from people;
select distinct on (city) city, id from people where city is not null order by id desc;
with t as not materialized (select 1 as a), u as materialized (select 2 as b) select * from t, u;
select cast({'a': 1, 'b': 'x'} as struct(a bigint, b text)) as s;
select * from generate_series(timestamp '2024-01-01', timestamp '2024-01-03', interval '1 day');
select * from range(date '2024-01-01', date '2024-01-02', interval '6' hour) as t(moment);
select city, age > 30 as old, count(*) as n from people group by (city, age > 30);
select city, count(*) filter (age > 30) as n from people group by city;
select greatest(10, '9') as g, born + interval '25 hours' as b from people;

-- distinct values over frames that slide
select id, sum(distinct age) over w as s, avg(distinct salary) over w as a from people window w as (order by id rows between 2 preceding and 1 following);
select id, sum(distinct age % 3) over (partition by id % 2 order by id rows between 1 preceding and 2 following) as s from people;

-- sums of a column and constants share one sum
select city, sum(age + 1) as a, sum(2 + age) as b, sum(age - 3) as c, sum(age) as d, sum(age + 2.5) as e, sum(distinct age + 1) as f, sum(age + 1) filter (where age > 30) as g from people group by city;
select sum(age + 1) as none, sum(age + 1) + sum(age) as both from people where age > 1000;

-- parts that occur several times
with r as (select city, sum(salary) as s from people group by city) select * from r where s = (select max(s) from r);
with r as (select person, sum(amount) as s from sales group by person) select a.person, b.s from r a join r b on a.s <= b.s;
with r as (select person, sum(amount) as s from sales group by person) select * from r union all select * from r;
with r as (select p.id, c.river from people p join cities c using (city)) select river, count(*) as n from r where id > (select min(id) from r) group by river;
with r as (select id, sum(age) over (order by id) as t from people) select a.id, b.t from r a join r b on a.id = b.id + 1;
with r as (select person, count(*) as n from sales group by person), q as (select n, count(*) as m from r group by n) select r.person, q.m, (select max(m) from q) as x from r join q using (n);
with r as (select person, max(amount) as m from sales group by person) select id, id in (select person from r) as a, age < any (select m from r) as b from people;
select id, age > all (select amount from sales s where s.person = p.id) as a, age < any (select amount from sales s where s.person <= p.id) as b, age <> all (select amount from sales s where s.person < p.id) as c from people p;
select id, age >= all (select amount from sales s where s.person < p.id) as a, age = any (select amount from sales s where s.person <> p.id) as b, exists (select 1 from sales s where s.amount > p.age) as c, (select count(*) from sales s where s.amount < p.age) as d from people p;
select id, city in (select city from cities where river = 'Euphrates') as e, city not in (select city from cities) as n, exists (select 1 from sales s where s.person = p.id) as x, exists (select 1 from sales where amount > 1000) as y from people p;
select id from people where city in (select city from cities) or age in (select amount from sales) or id in (select person from sales);

-- lists and structs as keys of joins
select a.id, b.id as j from (select id, [id % 2, null] as l from people) a join (select id, [id % 3, null] as l from people) b on a.l = b.l;
select a.id, b.id as j from (select id, {'a': id % 2} as s from people) a left join (select id, {'a': id % 3} as s from people) b on a.s = b.s;
select a."order" as i, b."order" as j from edge a join edge b on [a.f] = [b.f];
select a."order" as i, b."order" as j from edge a join edge b on {'f': a.f, 'n': 1} = {'f': b.f, 'n': 1};
select id from people where [id % 3] in (select [person] from sales);
select id, [age] in (select [amount] from sales) as x from people;
select [id % 3] as l from people intersect select [person] from sales;
select [id % 3] as l from people except select [person] from sales;

-- distinct sums
select sum(distinct amount) as s, avg(distinct amount) as a, count(distinct amount) as c, min(amount) as m from sales;
select person, sum(distinct amount % 7) as s from sales group by person;
select person % 2 as k, sum(distinct amount) as s, max(amount) as m from sales group by 1 having sum(distinct amount) > 5;
select sum(distinct f) as s, count(distinct f) as c from edge where f < 10;
select sum(distinct amount) as s, avg(distinct amount) as a from sales where amount > 1000;
select city, sum(distinct age) as s, count(*) as n from people group by city;
select city, sum(distinct salary) as s from people group by rollup (city);

-- forms of DuckDB
select [x * 2 for x in [1, 2, 3]] as a, [x for x in [id, age] if x > 5] as b from people;
select 1_000 as n, 1_000_000 + 2 as s, ~5 as b, length([1, 2]) as l, length('abc') as t;

-- edges of values
select ceil(9.5::decimal(2,1)) as a, floor(-999999.999::decimal(9,3)) as b, ceil(dec) as c, floor(dec) as d from edge;
select try_cast('12' as time) as a, cast('1:2:3.5' as time) as b, try_cast('2024-02-29 12:00:01' as time) as c, try_cast('25:00' as time) as d from people where id = 1;
select signbit(f) as s, signbit(-0.0::double) as z from edge where not isnan(f) or f is null;
select list_sort(list_distinct([1, null, age, 1])) as l, to_hex(id + 9) as h, to_hex(-1) as m from people;
select id, null::int[] || [1] as a, case when id > 2 then [id] end || [1] as b, [1] || [id] as c from people;
select cast('-3.50' as int) as a, '1e3'::bigint as b, try_cast('0x10' as int) as c, try_cast('1_000' as int) as d, try_cast(name as int) as e, try_cast('300' as tinyint) as f, try_cast('.5' as int) as g, try_cast('1e99' as bigint) as h from people;
select try_cast('12' as interval) as a, try_cast('1.5' as interval) as b, try_cast('x' as interval) as c, try_cast('2 days' as interval) as d from people where id = 1;
select cast(bin as varchar) as b from edge where bin is null or length(hex(bin)) = 4 and bin <> 'ab'::blob;
select timestamp '2024-01-01' + id * interval 1 day as a, timestamp '2024-01-01' + interval '1 hour' * id as b, timestamp '2024-01-01' + interval '7 months 5 days' / id as c, timestamp '2024-01-01' + interval '1 month -3 days 5 hours' * 0.3 as d from people;
select born + time '01:02:03' as a, time '23:59:59.5' + born as b from people;
select id, row(id, city) as r, (id, age) as s, row(1, row(city)) as t from people;
select count(distinct (city, age)) as n, count(distinct row(city)) as m from people;
select (city, age) as k, count(*) as n from people group by (city, age);
select city, row_number() over (partition by (city, 1) order by id) as r from people;
select name[1] as a, name[-1] as b, name[2:3] as c, name[2:] as d, name[:2] as e, name[0] as f, name[3:-2] as g, name[-99:1] as h, city[9] as i from people;
select array_extract(name, 2) as a, list_extract(name, 99) as b, array_slice(name, 1, 2) as c, [1, 2, 3][2:] as d, [1, 2, 3][:2] as e, array_extract({'a': id}, 'a') as f from people;
select avg(born) as b, avg(distinct born) as d from people where born > date '1980-01-01' and born < date '2000-01-01' and id <> 1;
select avg(ts) as t, avg(d) as d, count(*) as n from edge where ts is null or ts < timestamp '1970-01-01';
select city, avg(born) as b from people where born is null or day(born) = 1 group by city;
select avg(born) as b from people where id > 99;
select date_trunc('decade', born) as a, date_trunc('century', born) as b, date_trunc('millennium', born) as c, date_trunc('decade', timestamp '1969-12-31 23:59:59') as d from people;
select name from people where name glob '[A-E]*[!d]' or name glob '?i?' or name glob '[^d]*';
select name from people where name not glob '*a*' and 'a.b' glob 'a.?';
select 'a*b' glob 'a\*b' as a, 'axb' glob 'a\*b' as b, 'a]b' glob 'a[]]b' as c, 'a%' glob 'a_' as d, 'ab' glob 'a[!b]' as e, city glob '' as f from people;
select age ** 2 as a, 2 * id ** 2 + 1 as b, -age ** 2 as c, 2 ** 3 ** 2 as d, 2 ** -id as e, (id + 1) ** 0.5 as f from people;
select decode(bin) as d, octet_length(bin) as n from edge where bin <> unhex('00FF');
select encode(name) as e, decode(encode(name)) as d, city::blob as c, try_cast('ab' as blob) as t from people;
select isfinite(born) as a, isinf(born) as b, isfinite(timestamp '2024-01-01') as c from people;
select split_part(name, 'a', 0) as a, split_part(name, 'a', 1) as b, split_part(name, 'a', -1) as c, split_part('abc', '', 2) as d, split_part(name, '-', 3) as e from people;
select damerau_levenshtein(name, city) as a, damerau_levenshtein('ca', 'abc') as b, jaro_similarity(name, city) as c, jaro_winkler_similarity(name, 'Adab') as d, jaro_similarity('', '') as e, jaro_winkler_similarity('prefixabc', 'prefixabd') as f from people;
select lgamma(id) as a, gamma(id + 0.5) as b, gamma(-1.5) as c, lgamma(-0.5) as d, nextafter(salary, 0) < salary as e, nextafter(1::double, 2::double) as f from people;
select list_where([id, age, 3], [true, id > 3, false]) as a, array_where([1], [true, true]) as b, list_where(null::int[], [true]) as c from people;
select city, count(*) as n from people group by rollup (city, city);
select city, age, count(*) as n from people group by cube (city, age, city);
select list_sort([id, null, age], 'DESC', 'NULLS FIRST') as a, list_sort([3, null, 1], 'ASC', 'NULLS LAST') as b, list_reverse_sort([1, null, 2], 'NULLS FIRST') as c from people;
select date_part(['year', 'month'], born) as p, date_part(['hour', 'epoch'], timestamp '1970-01-01 01:00:00') as q from people;
select cast(salary as int) as a, cast(salary / 8 as bigint) as b, try_cast(salary * 1e6 as tinyint) as c, cast(2.5::double as int) as d, cast(-0.5::float as int) as e, cast(3.5::decimal(3, 1) as int) as f, cast(-2.5::decimal(3, 1) as tinyint) as g from people;
select strip_accents('Ærø ﬁ Ångström ñ ơ ß ' || name) as a, nfc_normalize('e' || chr(769) || name) as b from people;
select julian(born) as a, extract(julian from born) as b, julian(timestamp '2000-01-01 18:00:00') as c, date_part('julian', date '1970-01-01') as d from people;
select fmod(-7.5, 2) as a, fmod(7.5, -2) as b, fmod(id, 3) as c from people;
select cast('{A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11}' as uuid) as a, 'a0eebc999c0b4ef8bb6d6bb9bd380a11'::uuid = uuid 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11' as b, try_cast(name as uuid) as c, try_cast('of 16 characters' as uuid) as d from people;
select count(*) as n, min(id::uuid) as least, max(cast(id as uuid)) as most from (select lpad(id::varchar, 32, '0') as id from people) where id::uuid > '00000000-0000-0000-0000-000000000002';
select city, avg(time '00:00:01' + to_seconds(id)) as a, avg(time '10:00:00') as b from people group by city;
select mode(city order by id) as a, mode(city order by id desc) as b, mode(name order by id) filter (where id > 2) as d from people;
select columns('^(id|a)') from people;
select sum(columns('id|age')), count(*) as n from people;
select columns(['id', 'city']), name as n from people;
select * rename (id as number, city as town) from people;
select * exclude (salary) replace (id + 1 as id) rename (name as called) from people;
select p.* rename (id as number) from people p join people q on p.id = q.id;
select p.id, columns('^b') from (select * from people) p;
with a as (select columns('id|name') from people), b as (select columns('id') from a) select * from b;
select name, p from people, (values ('A*'), ('?[a-e]*'), ('[!A]*'), (null), ('*\*')) t(p) where name glob p or p is null;
select name from people where (name || '') glob ('*' || 'a');
select id from people order by id limit (select 2) offset (select 1);
select id from people order by id limit (select 2) offset (select null::int);
select * like '%a%' from people;
select * exclude (city) rename (id as number) from people where id < 4;

-- casts
select ts::timestamp_s as a, ts::timestamp_ms as b, try_cast(ts as timestamp_s) as c from (values (timestamp '2020-01-01 00:00:00.5'), (timestamp '1969-12-31 23:59:59.5'), (timestamp '1969-12-31 23:59:58.500001'), (timestamp '2020-01-01 00:00:00.123456'), (null)) t(ts);
select f::varchar as f, dec::varchar as d, ts::varchar as t, (ts + interval '500 milliseconds')::varchar as u from edge;
select 1e15::double::varchar as a, 1e16::varchar as b, 0.0001::double::varchar as c, 1.5e-10::varchar as d, 16777216::float::varchar as e, 'nan'::double::varchar as f;
select (id * interval '14 months 3 days 2 hours')::varchar as a, interval '-1 microsecond'::varchar as b, interval '0 days'::varchar as c, time '01:02:03.5'::varchar as d from people;
select [id, age]::varchar as l, {'a': id, 'b c': city, 'd': [name]}::varchar as s, map {city: age}::varchar as m from people where city is not null;
select ['a', 'b c', '', 'null', 'a,b', 'it''s', ' a', null]::varchar as a, [[1], [], null]::varchar as b, [timestamp '2024-01-01 00:00:00.5']::varchar as c, (1, 'a')::varchar as d, ['\xFF'::blob]::varchar as e;
select '1e3'::decimal(10, 1) as a, try_cast('1.25e-1' as decimal(9, 3)) as b, try_cast('1e9' as decimal(9, 3)) as c, ' 2020-02-29 '::date as d, true::decimal(3, 1) as e, '1e3'::hugeint as f;
select typeof(id) as a, typeof(name) as b, typeof([born]) as c, typeof(salary) as d from people limit 1;

-- medians and modes of any type
select median(city) as c, median(id > 3) as b, median(born) as d, median(age) as n from people;
select city, median(name) as n, quantile_disc(name, -0.2) as q, quantile_cont(age, -0.25) as r, sem(id) as s from people group by city;
select id, median(name) over (order by id rows 3 preceding) as m from people;
select mode(city order by id, name) as a, mode(city order by age desc, id desc) as b, mode(name order by city, id) filter (where id > 2) as c from people;
select city, mode(id > 3 order by age, id) as m from people where born is not null group by city;

-- values of rarer types as keys
select i, count(*) as n, max(j) as m, min(j) as l from (values (interval '1 month', interval '1 day'), (interval '30 days', interval '25 hours'), (null, null)) t(i, j) group by i;
select i from (values (interval '1 month'), (interval '31 days'), (interval '25 hours'), (interval '1 day')) t(i) order by i desc;
select a.i from (values (interval '1 month'), (interval '1 day')) a(i) join (values (interval '30 days'), (interval '24 hours')) b(i) on a.i = b.i;
select l from (values ([1]), ([null]), ([]), ([2, null]), ([2, 1])) t(l) order by l desc nulls last;
select a.f, b.f as g from (select f::float as f from edge) a join edge b on a.f = b.f;

-- more functions
select list_inner_product([1.0, 2.0], [id, 3.0]) as a, list_cosine_distance([1.0, 2.0], [2.0, 3.0]) as b, list_cosine_similarity([1.0, 2.0], [2.0, 3.0]) as c, list_negative_inner_product([1.0], [2.0]) as d, list_select([5, 6, 7], [1, 3]) as e, [id] && [1, 2] as f from people;
select list_bit_and([id, 7]) as a, list_bit_or([id, 8]) as b, list_bit_xor([1, 3]) as c, list_entropy([1, 2]) as d, list_mad([1, 2, 9]) as e, list_sem([1, 2, id]) as f, list_skewness([1, 2, 9]) as g, list_kurtosis([1, 2, 3, 9, 4]) as h, array_push_front([1, 2], id) as i from people;
select days_in_month(born) as a, nanosecond(timestamp '1969-12-31 23:59:59.5') as c, make_timestamp_ms(1577836800123) as d, strftime('%d/%m/%y', born) as e from people;
select strptime(s, ['%Y-%m-%d', '%d.%m.%Y']) as a, try_strptime(s, ['%Y', '%d.%m.%Y']) as b from (values ('05.01.2020'), ('2020-01-05')) t(s);
select timestamp '2020-01-01' + to_seconds(1.5) as a, timestamp '2020-01-01' + to_decades(id) as b, timestamp '2020-01-01' + to_centuries(1) as c, timestamp '2020-01-01' + to_milliseconds(0.5) as d from people;
select to_base(id, 2) as a, to_base(255, 16, 6) as b, unbin('000000001') as c, hex(from_binary('101')) as d from people;
select map_contains_value(map {'a': id}, 1) as a, map_contains_entry(map {'a': 1}, 'a', id) as b from people;
select regexp_extract(name, '([A-Z])([a-z]*)', ['first', 'rest']) as r from people;
select to_json({'id': id, 'city': city, 'l': [age], 'd': born, 'f': salary}) as a, json_array(id, name, null) as b, json_object('a', age, 'b', [name], 'c', json_object('d', id)) as c, to_json(map {'k': id}) as d from people;
select name like 'A$_%' escape '$' as a, 'a%c' like 'a$%c' escape '$' as b, 'a\c' like 'a\c' escape '$' as c, 'ABC' ilike 'a$b%' escape '$' as d, 'a$c' not like 'a$$c' escape '$' as e from people;
select {'a': id}.a as a, [{'x': id}][1].x as b from people;

-- nulls among nested values, and texts as nested values
select * from (values ([1]), (null), ([])) t(l);
select l is null as n, l from (values (null), ([[1]]), ([null])) t(l);
select * from (values ({'a': 1}), (null)) t(s);
select * from (values (map {'a': 1}), (null)) t(m);
select '[1, null, 3]'::int[] as a, '[[1], [], null]'::int[][] as b, '[a b, "c, d", ''e'', "null", null]'::varchar[] as c, '  [1]  '::int[1] as d, '[2020-01-01]'::date[] as e;
select try_cast('[1, x]' as int[]) as a, try_cast('[1' as int[]) as b, try_cast('[1, 2, 3]' as int[2]) as c, try_cast('{a: x}' as struct(a int)) as d, try_cast('{b: 1}' as struct(a int)) as e;
select '{a: 1, ''b'': x y}'::struct(a int, b varchar) as a, '{}'::struct(a int) as b, '(1, z)'::struct(a int, b varchar) as c, '{a: {b: [1, 2]}}'::struct(a struct(b int[])) as d;
select '{a=1, "b, c"=2}'::map(varchar, int) as a, '{1=[2, 3]}'::map(int, int[]) as b, '{}'::map(varchar, int) as c;
select [id, age]::varchar::int[] as l, {'a': id, 'b': city}::varchar::struct(a int, b varchar) as s, map {id: age}::varchar::map(int, int) as m from people;
select length([id, 2]::int[2]) as a, len([1, 2, 3]) as b, length(name) as c from people;

-- intervals with a clock
select i::interval as i from (values ('3 days 02:03:04'), ('-1 year 2 months -3 days 02:03:04.5'), ('02:03:04'), ('-02:03:04.123456'), ('2 hrs ago'), ('1 day 100:00'), ('1.5 days'), (null)) t(i);
select born + interval '1 day 02:03:04' as a, interval '3 days 00:00:01' as b, try_cast('1 day 1:60' as interval) as c from people;
select avg(to_days(id)) as a, avg(to_months(id)) as b from people;
select city, avg(i) as a, avg(i) filter (where id > 9) as b from people, (values (interval '1 month'), (interval '2 days 1 second')) t(i) group by city;
select mad(born) as a, mad(born + interval '1 hour') as b, mad(time '10:00:00' + to_hours(id)) as c, mad(age) as d from people;

-- weighted means and bins
select city, wavg(salary, age) as a, weighted_avg(id, 2) as b, wavg(id, age) as c from people group by city;
select wavg(x, w) as a from (values (1, 0), (2, 0)) t(x, w);

select city, histogram(id, [1, 3, 100]) as a, histogram(salary, [0, 1000, 2000]) as b, histogram_exact(id, [1, 3]) as c from people group by city;
select histogram(id, [3, 1, 1]) as a, histogram(name, ['C', 'zz']) as b, histogram(age, [50]) filter (where id > 99) as c, histogram(id, range(0, 10, 2)) as d from people;
select histogram(id, equi_width_bins(0, 10, 3, false)) as a, equi_width_bins(0, 10, 5, false) as b, equi_width_bins(0.0, 1.0, 4, false) as c, equi_width_bins(timestamp '2020-01-01', timestamp '2020-01-03', 4, false) as d from people;
select list_histogram([1, 1, 2, null]) as a, list_aggregate(['x'], 'histogram') as b from people where id < 3;
select approx_top_k(city, 1) as a, approx_top_k(id % 1, 3) as b, approx_top_k(city, 3) filter (where id > 99) as c from people;
select approx_quantile(id, [0.0, 1.0]) as a, approx_quantile(id, [0.5]) filter (where id > 99) as b from people;
select arg_min_null(age, id) as a, arg_max_null(born, id) filter (where id < 4) as b, arg_min_null(name, city) as c from people where city is null or city = 'Eridu';

-- structs and maps of others
select struct_insert({'a': id}, b := name, c := [age]) as a, struct_update({'a': id, 'b': 2}, b := city, d := 1) as b, struct_concat({'a': id}, {'b': 2}, null::struct(c int)) as c from people;
select struct_keys({'a': 1, 'B': 2}) as a, struct_keys(null::struct(a int)) as b from people limit 1;
select map_concat(map {'a': id, 'b': 5}, map {'b': id, 'c': 3}, null) as a, map_from_entries([(name, id), ('x', 2)]) as b, map_concat(map {1: 2}, map {}) as c from people;

-- more of JSON
select json_merge_patch('{"a":1,"b":{"x":1,"y":2}}', '{"b":{"x":null,"z":3},"c":' || id || '}') as a, json_merge_patch('{"a":1}', null) as b, json_merge_patch(null, '{"a":1}') as c, json_merge_patch('1', '{"a":null}') as d, json_merge_patch('{"a":[1]}', '{"a":[2]}', '{"b":{"c":null}}') as e from people;
select json_contains('{"a":{"b":1}}', '{"b":1}') as a, json_contains('[1,2]', id::varchar) as b, json_contains('[{"a":1,"b":2}]', '{"a":1}') as c, json_contains('{"a":1}', '{"a":2}') as d from people;
select json_structure('{"a":[1,2.5],"b":null,"c":"x","d":{"e":true}}') as a, json_structure('[1,-2]') as b, json_structure('[{"a":1},{"b":[]}]') as c from people limit 1;
select json_pretty('{"a":[1,{"b":[]}],"c":{}}') as a from people limit 1;
select city, json_group_array(id) as a from people where id = 1 group by city;

-- names that are words
select user, "current_date" + 1 as d from (select id as "user", age as "current_date" from people) t where user > 2 order by user;

select '2020-01-01 00:00:00.123456789'::timestamp_ns::varchar as a, try_cast('x' as timestamp_ns) as b, '2020-01-01 00:00:00.5'::timestamp_ns < ts as c from edge;

-- nulls within nested values, as keys of orders
select array_agg(id order by l desc) as a, array_agg(id order by l nulls first) as b, first(id order by l desc) as c, arg_max(id, l) as d, arg_min(id, l) as e from (values (1, [1, null]), (2, [1, 2]), (3, null), (4, []), (5, [null])) t(id, l);
select id, rank() over (order by l desc) as r, rank() over (order by l nulls first) as s, max(l) over (order by id) as m, min(l) over (order by id desc) as n from (values (1, [1, null]), (2, [1, 2]), (3, null), (4, []), (5, [null])) t(id, l);
select id, l from (values (1, ['a', null]), (2, ['a', 'b']), (3, null)) t(id, l) order by l nulls first;
select list_string_agg(l) as a, list_select(l, [1]) as b from (values (['a', null, 'b']), ([]), ([null]), (null)) t(l);
select list_min(l) as a, list_sum(l) as b, list_bit_and(l) as c, list_max(l) as d, list_mode(l) as e, list_first(l) as f, list_count(l) as g, list_median(l) as h, list_histogram(l) as i from (values ([1]), ([]), (null), ([2, 1, 1])) t(l);
select list_min(l) as a, list_sum(l) as b, list_bool_and(l::bool[]) as c from (values ([]::int[])) t(l);

-- columns of `using` in the places where they are written
select c.city, p.name from people p left join cities c using (city);
select p.name, c.city as there from people p join cities c using (city);
select c.* from people p join cities c using (city);
select p.id, p.name, p.age, p.born, p.salary, c.city as there, c.river, c.founded from people p join cities c using (city);
select name, city from people p join cities c using (city) join (select 'Ur' as city, 1 as n) x using (city);
select * from people p join cities c using (city) join (select 'Ur' as city, 1 as n) x using (city);
select * from people p left join cities c using (city) left join (select 'Ur' as city, 1 as n) x using (city);
select city, count(n) as n from people p full join cities c using (city) full join (select 'Babylon' as city, 1 as n) x using (city) group by city;
select x.* from (select * from people p join cities c on p.city = c.city) x where x.age > 30;
select age, * from people;
select *, id + 1 as id from people;
select * exclude (p.age) from people p join cities c using (city);

-- the order of a subquery whose rows are counted
select * from (select id, age from people order by age desc nulls last, id) limit 3;
select id from (select * from (select id, age from people order by age, id) where age > 20) limit 3 offset 1;
with w as (select name, age from people order by age, name) select name from w limit 2;

-- a query without a list
from people where age > 30;
from people p join cities c using (city) where founded < -3500 order by id;
select count(*) as n from (from people where age > 30);
with w as (from people where age > 30) from w where age < 60;
from people where age > 60 union all by name from people where age < 20;

-- sets of groups
select 1 as one from people group by ();
select city, age, count(*) as n from people group by rollup ((city, age));
select city, age, count(*) as n from people group by cube ((city, age), id % 2), id % 2;
select city, age, count(*) as n from people group by grouping sets (rollup (city, age), cube (age), ());

-- other forms
select sum(age), avg(age)::integer as mean, count(age), min(age) from people;
select city, sum(age > 30) as older, sum(distinct age > 30) as kinds from people group by city;
select id, sum(age > 30) over (order by id) as older from people;
with recursive Counted as (select 1 as n union all select n + 1 from Counted where n < 3) select * from Counted;
select id, rank() over w as r from people window w as (order by age) qualify rank() over w <= 2;
select percentile_disc([0.25, 0.5, 0.75]) within group (order by id desc) as p from people;
select percentile_cont([0.25, 0.5]) within group (order by id desc) as p from people;
select x, typeof(x) as t from (values ('127'::decimal(3, 0)), ('-128'::decimal(3, 0))) v(x);
select columns(* exclude (born, salary)) from people;
select age, sum(id) as s from people group by age order by (select sum(id) from people p where p.age = people.age), age;
select age, sum(id) from people group by age order by (select sum(p.id) from people p where p.age = people.age) desc, age;
select unnest({'a': id, 'b': name}) from people;
select unnest({'a': id, 'b': name}), age from people order by age nulls last;

-- dates in other spellings
select '2024-02-09 07:30'::timestamp as a, timestamp '2024-02-09 07:30' as b, '2024-2-9 7:30'::timestamp as c, '2024/02/09'::date as d, try_cast('2024-02-30 10:00' as timestamp) as e, try_cast('x' as timestamp) as f, '2024-02-09 07:30:15.25'::timestamp as g;
select id from people where born < '1980-03-01 00:00' and born > '1960/01/01';
select date '2024-01-01' > '2023-01-01' as a, '2024-01-01' = date '2024-01-01' as b, time '12:00' < '13:00' as c, timestamp '2024-01-01 10:00' >= '2024-01-01 09:30' as d;
select id, first(age ignore nulls) over (order by id) as a, last(age ignore nulls) over (order by id) as b from people;

-- no rows
select * from people limit 0;
select city, count(*) as n, array_agg(id) as l, {'a': max(born)} as s, map {'x': 1} as m from people group by city limit 0;
select * from (select sum(range) as s from range(100000000000)) limit 0;
select count(*) as n from (select * from people limit 0);

-- names for some of the columns
select a, name from people p(a);
select * from people p(a) join cities c(b, r) on p.city = c.b;
with w as (select id, name from people) select x, name from w t(x) order by x;
select x.a, x.age from (select id, age from people) x(a) where x.age > 30;
select * exclude (people.age, name) from people;
select * exclude (c.city) from people p join cities c on p.city = c.city;
select '\x20\x00\xFF'::bytea as a, 'ab'::bytea || '\x5A'::blob as b;

-- keys of slightly different types
select a.id, b.id as other from people a join people b on cast(a.salary as decimal(12, 2)) = cast(b.salary as decimal(18, 4));
select a.id from edge e join people a on cast(a.born as timestamp_s) = cast(e.d as timestamp_ns);
select id from people where cast(born as timestamp_ms) in (select cast(born as timestamp) from people where id < 4);
select id from people where exists (select 1 from edge where edge.dec = cast(people.salary as decimal(20, 6)));
select a.id from people a join people b on cast(a.id as decimal(5, 1)) = b.id and a.salary::float = b.salary;
select a.id, b.id as other from people a left join people b on a.born::timestamp = b.born and cast(a.salary as decimal(30, 2)) = b.salary;

-- values that were wrong
select * from (select city, age from people where city in ('Ur', 'Kish')) pivot (coalesce(sum(age), 0) for city in ('Ur', 'Kish', 'Mari'));
pivot (select city, age, id % 2 as m from people) on city in ('Ur', 'Kish') using coalesce(sum(age) filter (where age > 30), 0) + 1 as s, round(avg(age), 1) as a group by m;
select id, 41 = any(l) as a, 41 <> all(l) as b, null = any(l) as c from (select id, [age, id] as l from people) t;
select id from (select id, [age, id] as l from people) t where not (41 = any(l));
select list_has_any([1, null], [null, 2]) as a, list_intersect([1, null], [null, 1]) as b, [1, null] && [null] as c, list_has_any([1, 2], [2]) as d;
select (ts::timestamp_s + interval '0.5 seconds')::varchar as a, (ts::timestamp_ms + interval '5 microseconds')::varchar as b, (ts::timestamp_s - interval '1 second')::varchar as c from edge;
select s.a, s.b as two from (select {'a': id, 'b': name} as s from people) t order by s.a;
select a + 1 as n from (select s.a from (select {'a': id} as s from people) t) q;
select a.id from people a join (select id, cast('9999-12-31' as timestamp) as t from people) b on a.id = b.id and cast('9999-12-31' as date) + a.id::int - a.id::int = b.t;
select count(*) as n from (select * from people order by age) limit 5;
select city, count(*) as n from (select * from people order by age) group by city order by city limit 2;

-- names of tables that columns have
select id from people person where exists (select 1 from sales where sales.person = person.id);
select id, (select max(amount) from sales s where s.person = person.id) as most from people person order by person.id;
select person.* from people person where id in (select s.person from sales s where s.person = person.id and person.age > 20);
select person.name from people person join cities c using (city) where (select count(*) from sales where person = person.id) > 0 and person.age > 1;
select id from people where id in [1, 2, 9] and city not in ['Kish', 'Uruk'];
select [x + 1 for x in [1, 2] if x in [2]] as l from people where id = 1;
select a.id from people a join (select id, cast('10:00' as time) as t from people) b on cast('10:00' as time) = b.t and a.id = b.id;

-- items of lists, parts of texts, exact numbers
select id from (select id, city, ['Ur', city] as l from people) t where 'Kish' in l;
select id, id in l as a, id + 1 not in t.l as b from (select id, [1, 2, null] as l from people) t;
select id from people where name in string_split('Ann,Bob', ',') or position('a' in name) = 2;
select list_transform(l, lambda x: x.a + 1) as a, list_filter(l, lambda x: x['b'] > 'a') as b, list_transform(l, lambda x: [x.a, 0]) as c from (select [{'a': id, 'b': city}] as l from people) t;
select list_transform(l, lambda x: struct_extract(x, 's').b) as a, list_transform(l, lambda x: x.t[1]) as b from (select [{'s': {'b': id}, 't': [id, 2]}] as l from people) t;
select array(select name from people order by name desc) as l;
select city, array(select p.id from people p where p.city = c.city order by 1) as l from cities c;
select array(select id from people where id > 99) as l;
select len(array(select id from people)) as n;
select substring(name, -2) as a, substr(name, -3, 2) as b, substring(name, 3, -2) as c, substring(name, -9, 7) as d, substring(name, 0, 2) as e from people;
select substring(name, (id % 5 - 2)::int) as a, substring(name, (id % 5 - 2)::int, (id % 3 - 1)::int) as b from people;
select trim(leading from '  a ') as a, trim(trailing from '  a ') as b, trim(both from '  a ') as c, trim(leading 'x' from 'xa') as d from people where id = 1;
select born + interval (id || ' days') as d, born + interval (id) month as m from people;
select try('a'::int) as a, try('5'::int) as b;
select 12345678901234567890.12::decimal(38, 2) as a, -1.005::decimal(4, 2) as b, cast(2.345 as decimal(3, 2)) as c;
select bit_count((-id)::tinyint) as a, bit_count((-id)::smallint) as b, bit_count((-id)::int) as c, bit_count((-id)::bigint) as d from people;
select extract(epoch from interval '1 year') as a, epoch(interval '-14 months') as b, date_part('epoch', interval '25 months 1 day 2 hours') as c;
select json_extract(j, '$.a[*].b') as a, json_extract_string(j, '$.a[*].b') as b, j->'$.*' as c, json_extract(j, ['$.c', '$.x']) as d, j->>'$."*"' as e from (values ('{"a": [{"b": 1}, {"b": "x"}], "c": 2}'), ('{"*": "y"}'), (null)) t(j);
select array(select distinct city from people where city is not null order by city) as l;
select array(select id as n from people order by n desc limit 3) as l, array(select id from people order by id limit 2) as m;
select date_part('day', d) as a, hour(d) as h, extract(minute from d) as m, second(d) as s, millisecond(d) as ms, microsecond(d) as us, epoch(d) as e from (select (timestamp '2024-03-05 12:34:56.789' + interval (id) hour) - timestamp '2024-03-05 23:59:59.5' as d from people) t;
select day(i) as a, hour(i) as h, minute(i) as m, second(i) as s, millisecond(i) as ms, microsecond(i) as us, epoch(i) as e from (values (interval '-26 months 20 days 70 hours -70 minutes 5.5 seconds'), (interval '-1.25 seconds'), (null)) t(i);

-- groups by casts, limits that are computed, samples
select city, city::varchar as c, count(*) as n from people group by 1, 2 order by 1;
select id, cast(id as varchar) as c, count(*) as n from people group by id, cast(id as varchar) order by id;
select id as a, id::varchar as b, id + 1 as c, count(*) as n from people group by 1, 2, 3 order by 1;
select id from people order by id limit 50%;
select id from people order by id limit 12.5 percent;
select id from people order by id desc limit 50% offset 1;
select count(*) as n from (select id from people limit 30%);
select name from people order by id limit (select count(*) from cities);
select id, name from people order by age desc nulls last, id limit (select min(founded) + 5003 from cities) offset (select 1);
select id from people order by id offset (select count(*) from cities);
select id from people order by id limit 10//4;
select id from people order by id limit least(2, 3) offset greatest(1, 2);
select id from people order by id limit 3::bigint;
select id from people order by id limit (select null::int);
select city, count(*) as n from people group by city order by n desc, city limit (select 2 + 1);
select distinct city from people order by city limit 50%;
select count(*) as n from people using sample 3;
select count(*) as n from people using sample 3 rows;
select count(*) as n from people p using sample reservoir(3 rows) repeatable (42);
select count(*) as n from people where id > 0 using sample 100%;
select count(*) as n from people tablesample reservoir(3 rows);
select count(*) as n from people p tablesample (100 percent) join sales s on s.person = p.id;
select count(*) as n from people tablesample bernoulli(100 percent) repeatable (1);
select count(*) as n from (select id from people where id > 4) t tablesample 2 rows;

-- laterals with columns of one name, values of columns
select p.id, a.x as a, b.x as b from people p, lateral (select p.id + 1 as x) a, lateral (select a.x + 1 as x) b order by p.id;
select p.id, v.id as v from people p, lateral (select p.id + 1 as id) v order by p.id;
select p.id, v.x from people p, lateral (values (p.id), (p.id + 1)) v(x) order by p.id, v.x;
select p.id, v.x, v.y from people p cross join lateral (values (p.id, 1), (p.age, 2)) v(x, y) order by p.id, v.y;
select p.id, (select max(x) from (values (p.id), (p.age)) v(x)) as most from people p order by p.id;

-- names of columns and rows
select columns(* rename (id as b)) from people;
select columns(* replace (id + 1 as id)) from people;
select max(columns(* exclude (city, name) replace (id + 1 as id))) from people;
select * from people order by *;
select city, id from people order by * desc;
select #1, #2 from people;
select id from people where #1 > 3;
select id, city from people order by #2, #1 desc limit 3;
select t from (select 1 as a, 'x' as b) t;
select c from cities c;
select count(c) as n, count(cities) as m from cities c, cities;
select p.id, c from people p join cities c using (city);
select array_agg(c order by c.city) as l from cities c;
select to_json(c) as j from cities c;
select s.* from (select {'a': id, 'b': name} as s from people) t;
select id, s.* exclude (a), s.* rename (b as c) from (select id, {'a': id, 'b': name} as s from people) t;
select string_agg(name, null) as a, count(*) as n from people;

-- asof joins with using and with conditions of one side
select s.day, t.amount from sales s asof join (select day, amount + 1 as amount from sales) t using (day);
select person, day, t.x from sales s asof join (select person, day, amount + 1 as x from sales) t using (person, day);
select * from sales s asof join (select person, day, amount + 1 as x from sales) t using (person, day);
select * from sales s asof left join (select person, day + 1 as day, amount + 1 as x from sales) t using (person, day) order by day;
select s.person, s.day, t.amount from sales s asof join sales t on s.day >= t.day and s.person = t.person and t.amount = 10;
select s.person, s.day, t.amount from sales s asof left join sales t on s.day >= t.day and s.person = t.person and t.amount < 15 and s.amount > 5 order by s.day;
select s.person, s.day, t.amount from sales s asof join sales t on s.day >= t.day and s.person = t.person and s.amount > 15;

-- nulls of lists, dates of texts
select [1] || null as a, null || [1] as b, [1] || null::int[] as c, list_concat([1], null) as d, list_concat(null, [1], [2]) as e;
select 0 > any([1, null]) as a, 0 < any([1, null]) as b, 0 < all([1, null]) as c, 2 < all([1, null]) as d, 5 >= all([1, 2]) as e, null > any([1]) as f, 1 > any([]::int[]) as g;
select id, id > any(l) as a, id <= all(l) as b, age >= any(l) as c from (select id, age, [3, null, 5] as l from people) t;
select list_has_all([1], null::int[]) as a, list_has_all(null::int[], [1]) as b, list_has_all([1], [1, null]) as c, list_has_all([1, 2], [2]) as d, list_has_all([1], [2]) as e;
select coalesce(date '2020-01-01', '2020-01-02') as a, coalesce(null, date '2020-01-01', '2020-01-02') as b;
select coalesce(born, '2020-01-02') as d from people;
select [date '2020-01-01', '2020-01-02'] as l;
select id, lag(amount, id) over (order by id, amount) as a, lead(amount, id % 3, 99) over (order by id, amount) as b from (select id, amount from people join sales on person = id) t;
select id, lag(age, case when id = 4 then null else (id % 3)::int end, -1) over (order by id) as a, lead(age, (id % 3)::int ignore nulls) over (order by id desc) as b from people;
select year(d) as y, month(d) as m, quarter(d) as q, decade(d) as c, extract(year from d) as e from (select timestamp '2024-03-05 12:34:56.789' - timestamp '2023-03-05 23:59:59.5' as d) t;

-- unions by name
select 1 as a, 2 as b union by name select 3 as b;
select 1 as a, 2 as b union all by name select 3 as b, 4 as c;
select 1 as a union all by name select 'x' as b union all by name select 5 as a, 6 as c;
select 1 as a, 'x' as b union by name (select 'y' as b union by name select 2 as a, 3 as c);
select id, city from people union all by name select city, river from cities;

-- conditions of outer joins with subqueries of both sides
select p.id, c.river from people p left join cities c on p.city = c.city and exists (select 1 from sales s where s.person = p.id and s.amount > c.founded);
select p.id, c.river from people p left join cities c on p.city = c.city and p.age > (select min(amount) from sales s where s.person = p.id or s.amount = c.founded);
select p.id, s.amount from people p left join sales s on p.id = s.person and s.amount in (select s2.amount from sales s2 where s2.person = p.id and s2.day >= s.day);
select p.id, s.amount from people p full join sales s on p.id = s.person and exists (select 1 from sales s2 where s2.person = p.id and s2.day > s.day);
select p.id, s.amount from people p right join sales s on p.id = s.person and exists (select 1 from sales s2 where s2.person = p.id and s2.day > s.day);
select p.id, s.amount from people p left join sales s on p.id = s.person and not exists (select 1 from sales s2 where s2.person = p.id and s2.day > s.day);
select list_transform([1, 2], lambda c: c + 1) as l from cities c;
select p.id, c from people p left join cities c on p.city = c.city and p.id < 3 where c.city is not null;
select * from (pivot sales on person in (1,2) using sum(amount) group by day) p order by day;
with p as (pivot sales on person in (1,2) using sum(amount) group by day) select * from p order by day;
select count(*) as n from (unpivot (select id, age from people) on id, age) u;
with w as (pivot people on city in ('Ur', 'Kish') using count(*) as n, max(age) as m group by born) select born, Ur_n + 1 as n, Kish_m from w order by born;
select a.day, a."1" as one, b.n from (pivot sales on person in (1) using sum(amount) group by day) a join (pivot sales on person in (5) using count(*) as n group by day) b(day, n) using (day) order by 1;

-- intervals, durations and units
select date '2020-03-10' + (-interval '1 month 2 days') as a, cast(-interval '1 hour 30 minutes' as varchar) as b, interval '1 month 2 days' * -1 = -interval '1 month 2 days' as c, -(-interval '3 days') = interval '3 days' as d;
select id from people where born > date '2000-03-03' + (-interval '10 years 2 days') order by id;
select cast(timestamp '2300-01-01' - timestamp '2000-01-01' as varchar) as a, cast(timestamp '2000-01-01' - timestamp '2000-01-03 01:30:00.5' as varchar) as b, cast(timestamp '2000-01-01' - timestamp '2030-01-01' as varchar) as c;
select date_diff('century', date '1970-01-01', date '2000-06-15') as a, date_diff('century', date '2000-06-01', date '2001-01-01') as b, date_diff('millennium', date '1999-06-01', date '2000-01-01') as c, date_diff('millennium', date '2000-06-01', date '2001-01-01') as d;
select nanosecond(timestamp '2300-01-01 00:00:01') as a, nanosecond(date '1900-01-01') as b, nanosecond(timestamp '1969-12-31 23:59:59.000001') as c, list_entropy(null::int[]) as d, list_entropy([1, 1, 2]) as e;
select list_contains([0.0::double], -0.0::double) as a, list_position([1.0::double, -0.0::double], 0.0::double) as b, list_has_any([0.0::double], [-0.0::double]) as c, list_has_all([0.0::double, 1.0::double], [-0.0::double]) as d, list_unique([0.0::double, -0.0::double]) as e, list_contains(['nan'::double], -'nan'::double) as f, map_contains(map {0.0::double: 1}, -0.0::double) as g, list_contains([-0.0::float], 0) as h;
select a.f, count(*) as n from (values (1.0::double), (0.0::double), (-0.0::double)) a(f) join (values ([0.0::double]), ([-0.0::double]), ([1.0::double])) b(l) on list_contains(b.l, a.f) group by a.f order by a.f;
select max(l, 2) as a, max(l) as b, min(l, 2) as c, arg_max(i, l) as d, arg_min(i, l) as e from (values ([5], 1), ([null], 2), ([7], 3), (null, 4)) v(l, i);
select i, max(l) over (order by i) as m, min(l) over (order by i) as n from (values ([5], 1), ([null], 2), ([7], 3)) v(l, i);

-- forms of other databases
select 1 as x union all select 'asdf';
select n from (values (1), (2)) t(n) union all select s from (values ('x'), (null)) u(s);
select n from (values (1.5)) t(n) union select s from (values ('1.5'), ('y')) u(s);
select true as b union all select 'yes';
select * from range(3) with ordinality;
select i, o from range(5, 11, 2) with ordinality as t(i, o) where o > 1;
select * from generate_series(3, 1, -1) with ordinality;
select x, o from unnest([7, 8, null]) with ordinality as t(x, o);
select * from unnest(['a', 'b']) with ordinality;
select * from range(timestamp '2020-01-01', timestamp '2020-04-01', interval (1) month) with ordinality as t(d, o);
select date '2020-01-01' + interval (2) day as d, date '2020-03-01' - interval (1) months as e;
select m[k] as v from (values (map {'a': 1, 'b': 2}, 'b'), (map {'a': 3}, 'x')) t(m, k);
select m[k[1]] as v, m[k[2]] as w from (values (map {1: 'one'}, [1, 2])) t(m, k);
select s.a as lower, s.A as upper, s['a'] as item from (values ({'A': 1}), ({'A': null})) t(s);
select s.inner.x as x from (values ({'Inner': {'X': 5}})) t(s);
select (case when true then {'a': 42} end).a as a;
select hex(blob 'ab') as h, octet_length(blob '\x00\xFFz') as n;
select i, string_agg(i::varchar, ',' order by i desc) over (partition by i % 2) as c from range(6) t(i);
select i, array_agg(i order by -i) over () as c, list(i order by i) filter (where i > 0) over (partition by i % 2) as d from range(4) t(i);
select count_star() as n, count_star() filter (where i > 1) as m from range(4) t(i);
select array(select distinct i from (values (1), (2), (1)) t(i) order by t.i desc) as a;
select range(1, len([7, 8]) + 1) as a, generate_series(len([7, 8]) - 1, 3) as b;
select array(select i from range(4) t(i) order by t.i desc) as a;
select array(select 3 union all select 1 union all select 2 order by 1) as a;
select * from (values (1, 2), (3, 4),) t(a, b);
select map(k, v) as m from (values (['a', 'b'], [1, 2]), ([], [])) t(k, v);
select map(list(k order by k), list(v order by k)) as m from (values ('a', 1), ('b', 2)) t(k, v);
select map(k, v)['b'] as v, map([1, 2], v)[1] as w from (values (['a', 'b'], [1, 2])) t(k, v);
select v.lower() as a, (v).upper() as b, v.lower().upper()[1:2] as c, t.v.length() as d from (values ('Ur'), ('Kish'), (null)) t(v);
select v.split(' ').list_sort()[1] as a, v.split(' ').length() as b, v.replace('a', 'b').upper() as c from (values ('c a b'), ('x')) t(v);
select v.split(' ').apply(lambda x: x.upper()) as a, v.split(' ').filter(lambda x: x <> 'a') as b, v.split(' ').aggregate('max') as c from (values ('c a b'), ('a')) t(v);
select s.name.upper() as a, main.lower('X') as b from (values ({'name': 'ur'})) t(s) where s.name.starts_with('u');

-- keys over several inputs of a join, and nulls beside null-safe keys
select l.x, r.b, s.v from (values (1, 10), (1, 20)) l(a, x) cross join (values (5), (6)) r(b) join (values (1, 15), (1, 26)) s(a, v) on l.a = s.a and l.x + r.b = s.v;
select p.id, c.city, s.amount from people p cross join cities c join sales s on s.person = p.id and s.amount - length(c.city) = p.id + 5;
select p.id, c.city, s.amount from people p cross join cities c left join sales s on s.person = p.id and s.amount - length(c.city) = p.id + 5;
select p.id, s.amount, c.city from people p, sales s, cities c where p.id = s.person and p.city = c.city and s.amount - p.id > length(c.city);
select l.x, r.y from (values (1, null), (null, 3)) l(a, x), (values (1, null), (null, 3)) r(a, y), (values (1)) z(q) where l.a is not distinct from r.a and l.x = r.y;
select l.a, l.x, r.b from (values (1, 10), (1, 11), (2, 20)) l(a, x), (values (10), (20)) r(b) where case when l.x > 10 then r.b end = (select max(s.b) from (values (1, 10), (1, 20), (2, 20)) s(a, b) where s.a = l.a and s.b = r.b);
select l.a, l.x, r.b from (values (1, 10), (1, 11), (2, 20)) l(a, x) left join (values (10), (20)) r(b) on case when l.x > 10 then r.b end = (select s.b from (values (1, 10), (1, 20), (2, 20)) s(a, b) where s.a = l.a and s.b = r.b limit 1);

-- names of lambdas, tables, common tables and columns
select x + 1 as y, list_transform([1, 2], lambda y: y * 10) as z from (values (5)) t(x);
select [1] as l, list_filter([1, 2], lambda l: l > 1) as f, [l + 1 for l in [1, 2]] as g;
select i from generate_series(1, 2) i;
select * from range(2) t, range(2) u;
select t.range, t.range + 1 as n, t from range(3) t where t.range > 0;
select i.generate_series from generate_series(1, 2) i order by i;
select unnest from unnest([1, 2]);
select * from unnest([1, 2]) i;
select i.unnest, i from unnest([1, 2]) i;
select l, u from (values ([1, 2]), ([3])) t(l), unnest(t.l) u;
select * from unnest([{'a': 1}, {'a': 2}]);
select n, k from (values (2), (0), (3)) t(n), generate_series(1, n) g(k);
select n, range from (values (2), (3)) t(n), range(n);
select p.id, r from people p, range(p.id, p.id + 2) r;
with c as (select 1 as i) select * from c where i = (with c as (select max(i) as m from c) select m from c);
with t as (select 1 as x) select * from (with t as (select x + 1 as x from t), u as (select x * 10 as y from t) select * from t, u) v, t w;
with recursive r(i) as (select 1 union all select i + 1 from r where i < 3) select * from (with r as (select max(i) as m from r) select * from r) q;
select col0, v.col1 from (values (1, 'a'), (2, 'b')) v where col0 > 1;
select main.people.id from main.people where main.people.id > 3;
select id, n from main.people p, (select p.id + 1 as n);
select * from (select 42 as a) t, (select t.a + 1 as b) u, (select a + u.b as c);
select s.v, r.s.v as w from (values (1)) s(v), (values ({'v': 2})) r(s);
unpivot (select 1 as id, 2 as a, 3 as b) on a x, b into name n value v;
pivot sales on person in (1 one, 2) using sum(amount) total, count(*) as n group by day order by day;
select count(*) as n, city, age from people group by grouping sets ((2, 3), (2)) order by all;
select city, age, count(*) as n from people group by rollup (1, 2) order by all;

-- rows, lists and structs
select row(1, 2) in (select 1, 2) as a, (1, 2) = any (select 1, 2) as b, row(1, 3) <> all (select 1, 2) as c, row(1, null) in (select 1, 2) as d;
select id from people where row(id, age) in (select id, age from people where id > 2);
select id from people where (id, age) = any (select id, age from people where id < 3);
select id, id in ((select min(id) from people), (select max(id) from people), 3) as t, (age in ((select min(age) from people), 41)) is true as u from people;
select row(1, 'x')[2] as b, (row(1, 2))[1] as a;
select x.a from (select regexp_extract('foobar', '(?:o+)(b)', ['a']) as x) t where x.a = 'b';
select struct_pack(id, p.age) as s from people p;
select generate_subscripts([4, 5, 6], 1) as i;
select list_aggr(['a', 'b', null], 'string_agg', '-') as s, list_aggregate([1, 2], 'sum') as n;
select regexp_extract('foobar', 'B(A)', 1, 'i') as a, regexp_extract_all('aBc', '[A-C]', 0, 'i') as b, regexp_extract('foobar', 'B(A)', 1, '') as c;
select regexp_extract_all('aabca', 'a*') as a, regexp_extract_all('щцф', 'ц*') as b, string_split_regex('aaa', '') as c, string_split_regex('a1b22c', '[0-9]+') as d;
select list_reduce([0.5e0, 2e0], lambda a, x: a + x, 1) as a, list_reduce([1, 2, 3], lambda a, x, i: a + x * i) as b, list_reduce([1, 2, 3], lambda a, x, i: a + x * i, 0) as c, list_reduce([0.1, 0.2]::decimal(18, 6)[], lambda a, x: a + x, 1) as d;
select list_reduce(l, lambda a, x: a + x, 0) * 2 as s from (values ([1.5e0, 2]), ([]), (null)) t(l);
select list_contains([null, 0], 1) as a, list_contains([1], null) as b, list_contains([1, null], 1) as c;
select map_extract(map {'a': 1}, 'b') as a, map_extract(map {'a': 1}, 'a') as b, element_at(map {'a': null}, 'a') as c, map {'a': 1}['b'] as d;
select mode() within group (order by x desc) as a, mode(x order by x desc) as b from (values (500), (1000), (1000), (500)) t(x);
select count(distinct 42) over () as n from range(3);

-- times
select extract(decade from interval '25 years') as a, date_part('century', interval '250 years') as b, extract(quarter from interval '5 months') as c, extract(quarter from interval '23 months') as d;
select epoch_us(time '01:02:03.5') as a, epoch_ms(time '00:00:01.5') as b, epoch_ms(interval '16 months') as c, epoch_us(interval '1 month 2 days 3 seconds') as d, epoch_ns(interval '1 day') as e;
select '2024-05-10 11:06:33.846'::timestamp_s as a, '2024-05-10 11:06:33.123846'::timestamp_ms as b, '2024-05-10 11:06:33.123846'::timestamp(6) as c;

-- columns as rows
select column_name from (describe people) where column_name like 'c%';
select column_name from (describe select id, city from people) order by all;
with t as (select 1 as a, 'x' as b) select count(*) as n from (describe t);
select column_name, min, max, count from (summarize select id, age from people) order by column_name;
select s.column_name, s.count from (summarize from people) s join cities on s.column_name = 'city' limit 2;
