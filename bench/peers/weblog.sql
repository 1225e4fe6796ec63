-- Forty queries of the web log that weblog.py generates: counts, distinct values, top groups,
-- patterns of addresses, buckets of time, keys of many columns.

select count(*) as n from hits;

select count(*) as n from hits where adv_id <> 0;

select sum(adv_id) as s, count(*) as n, avg(width) as w from hits;

select avg(user_id) as a from hits;

select count(distinct user_id) as n from hits;

select count(distinct search) as n from hits;

select min(day) as first, max(day) as last from hits;

select adv_id, count(*) as n from hits where adv_id <> 0 group by adv_id order by n desc, adv_id;

select region, count(distinct user_id) as u from hits group by region order by u desc, region
    limit 10;

select region, sum(adv_id) as s, count(*) as c, avg(width) as w, count(distinct user_id) as u
    from hits group by region order by c desc, region limit 10;

select phone, count(distinct user_id) as u from hits where phone <> '' group by phone order by u
    desc, phone limit 10;

select phone, model, count(*) as n from hits where phone <> '' group by phone, model order by n
    desc, phone, model limit 10;

select search, count(*) as c from hits where search <> '' group by search order by c desc,
    search limit 10;

select search, count(distinct user_id) as u from hits where search <> '' group by search order
    by u desc, search limit 10;

select engine, search, count(*) as c from hits where search <> '' group by engine, search order
    by c desc, engine, search limit 10;

select user_id, count(*) as n from hits group by user_id order by n desc, user_id limit 10;

select user_id, search, count(*) as n from hits group by user_id, search order by n desc,
    user_id, search limit 10;

select user_id, extract(minute from time) as m, search, count(*) as n from hits group by
    user_id, m, search order by n desc, user_id, m, search limit 10;

select user_id from hits where user_id = 4359;

select count(*) as n from hits where url like '%market%';

select search, min(url) as u, count(*) as c from hits where url like '%market%' and search <> ''
    group by search order by c desc, search limit 10;

select search, min(url) as u, min(title) as t, count(*) as c, count(distinct user_id) as d from
    hits where title like '%News%' and url not like '%.shop.%' and search <> '' group by search
    order by c desc, search limit 10;

select * from hits where url like '%market/1%' order by time, watch_id limit 10;

select search from hits where search <> '' order by time, watch_id limit 10;

select search from hits where search <> '' order by search limit 10;

select time, search from hits where search <> '' order by time, search, watch_id limit 10;

select counter, avg(length(url)) as l, count(*) as c from hits where url <> '' group by counter
    having count(*) > 1000 order by l desc, counter limit 25;

select regexp_replace(referer, '^https?://(?:www\.)?([^/]+)/.*$', '\1') as k,
    avg(length(referer)) as l, count(*) as c, min(referer) as m from hits where referer <> ''
    group by k having count(*) > 1000 order by l desc, k limit 25;

select sum(width) as s0, sum(width + 1) as s1, sum(width + 2) as s2, sum(width + 3) as s3,
    sum(width + 4) as s4, sum(width + 5) as s5, sum(width + 6) as s6, sum(width + 7) as s7,
    sum(width + 8) as s8, sum(width + 9) as s9 from hits;

select engine, ip, count(*) as c, sum(is_refresh) as r, avg(width) as w from hits where search
    <> '' group by engine, ip order by c desc, engine, ip limit 10;

select watch_id, ip, count(*) as c, sum(is_refresh) as r, avg(width) as w from hits group by
    watch_id, ip order by c desc, watch_id, ip limit 10;

select url, count(*) as c from hits group by url order by c desc, url limit 10;

select ip, ip - 1 as a, ip - 2 as b, ip - 3 as d, count(*) as c from hits group by ip, a, b, d
    order by c desc, ip limit 10;

select url, count(*) as n from hits where counter = 62 and day >= date '2026-03-01' and day <=
    date '2026-03-31' and is_refresh = 0 and url <> '' group by url order by n desc, url limit
    10;

select title, count(*) as n from hits where counter = 62 and day >= date '2026-03-01' and day <=
    date '2026-03-31' and is_refresh = 0 and title <> '' group by title order by n desc, title
    limit 10;

select engine, case when engine = 0 then referer else '' end as src, url as dst, count(*) as n
    from hits where counter = 62 and day >= date '2026-03-05' group by engine, src, dst order by
    n desc, engine, src, dst limit 10;

select date_trunc('minute', time) as m, count(*) as n from hits where counter = 62 and day >=
    date '2026-03-14' and day <= date '2026-03-15' group by m order by m limit 10;

select flag_1, flag_2, flag_3, flag_4, phone, count(*) as n from hits group by flag_1, flag_2,
    flag_3, flag_4, phone order by n desc, flag_1, flag_2, flag_3, flag_4, phone limit 20;

select region, user_id, n from (select region, user_id, count(*) as n, row_number() over
    (partition by region order by count(*) desc, user_id) as place from hits group by region,
    user_id) t where place <= 3 order by region, place limit 100;

select date_trunc('hour', time) as h, sum(number_1) as s, max(number_2) as m, avg(number_3) as a
    from hits group by h order by h;
