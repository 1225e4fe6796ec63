//! Examples of the commands, which their help shows, and which errors of usage repeat.

/// Of all commands, with the terms that their help has.
pub const ALL: &str = "\
Examples:
  euphrates sql \"select city, sum(price) from 'sales.csv' group by city\"
  euphrates sort sales.csv --by 'price desc' -o sorted.parquet
  euphrates run flow.py

Terms:
  flow          a graph of modules: a JSON document, or a Python file that builds one
  module        an operator of a flow, like scan, filter, sort or save
  collection    rows stored under a name, @NAME, in the home folder and on its disks
  striped file  bytes stored under a name, across several disks, with parity
  home folder   $EUPHRATES_HOME, or ~/.euphrates
  worker        a process of a cluster that executes flows

`euphrates COMMAND --help` describes a command and its options.";

/// Of `sort`.
pub const SORT: &str = "\
Examples:
  euphrates sort sales.csv --by 'price desc, city' -o sorted.parquet
  euphrates sort 'days/*.parquet' --by day -o @sales
  cat sales.csv | euphrates sort - --format csv --by city -o - | head";

/// Of `sql`.
pub const SQL: &str = "\
Examples:
  euphrates sql \"select city, sum(price) from 'sales.csv' group by city\"
  euphrates sql \"select * from sales where price > 9\" --table sales=sales.parquet -o dear.csv
  euphrates sql \"describe 'sales.csv'\"
  euphrates sql --file report.sql";

/// Of `join`.
pub const JOIN: &str = "\
Examples:
  euphrates join sales.csv cities.csv --on city -o joined.parquet
  euphrates join sales.csv cities.csv --on 'city=name' --how left -o joined.csv";

/// Of `aggregate`.
pub const AGGREGATE: &str = "\
Example:
  euphrates aggregate sales.csv --by city --value 'paid=sum(price)' -o paid.csv";

/// Of `copy-in`.
pub const COPY_IN: &str = "\
Example:
  euphrates copy-in sales --format csv < sales.csv";

/// Of `copy-out`.
pub const COPY_OUT: &str = "\
Example:
  euphrates copy-out sales --format csv | head";

/// Of `run`.
pub const RUN: &str = "\
Examples:
  euphrates run flow.py
  euphrates run flow.json -p day=2024-01-31 --memory 2GiB";

/// Of `check`.
pub const CHECK: &str = "\
Example:
  euphrates check flow.py";

/// Of `show`.
pub const SHOW: &str = "\
Example:
  euphrates show flow.py --as svg > flow.svg";

/// Of `worker`.
pub const WORKER: &str = "\
Example:
  euphrates worker --join 10.0.0.1:7000 --token-file cluster.token";

/// Of `launch`.
pub const LAUNCH: &str = "\
Example:
  euphrates launch --cluster at:10.0.0.1:7000 --token-file cluster.token -- hostname";

/// Of `file put`.
pub const FILE_PUT: &str = "\
Example:
  euphrates file put video.mp4 media/video --data 2 --parity 1";
