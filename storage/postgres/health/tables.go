package health

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/taskengine/taskengine/storage/postgres/internal/ended"
)

// Table is a table or an index.
type Table struct {
	Name       string
	Index      bool
	Valid      bool  // of an index: whether it is used
	Bytes      int64 // with the values that are stored out of line
	Live, Dead int64 // rows, by the statistics of the server; of an index, Live is its entries
	Vacuumed   time.Time
}

func (e *examination) readTables(ctx context.Context, h *Report) error {
	rows, _ := e.pool.Query(ctx, `
with t as (select c.oid from pg_class c join pg_namespace n on n.oid = relnamespace where nspname = $1 and relname in ('task', 'key') and relkind = 'r')
select relname, false, true, pg_table_size(relid), n_live_tup, n_dead_tup, coalesce(greatest(last_vacuum, last_autovacuum), '-infinity')
from t join pg_stat_all_tables on relid = t.oid
union all
select relname, true, indisvalid and indisready, pg_relation_size(indexrelid), greatest(reltuples, 0)::bigint, 0, '-infinity'
from t join pg_index on indrelid = t.oid join pg_class c on c.oid = indexrelid
order by 2, 1`, e.schema)
	var err error
	h.Tables, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (t Table, err error) {
		var vacuumed pgtype.Timestamptz
		err = row.Scan(&t.Name, &t.Index, &t.Valid, &t.Bytes, &t.Live, &t.Dead, &vacuumed)
		t.Vacuumed = vacuumed.Time
		return t, err
	})
	return err
}

func (e *examination) readPartitions(ctx context.Context, h *Report) error {
	rows, _ := e.pool.Query(ctx, `
select c.relname, i.inhrelid is null, pg_table_size(c.oid) + pg_indexes_size(c.oid) from pg_class c
join pg_namespace n on n.oid = c.relnamespace left join pg_inherits i on i.inhrelid = c.oid
where n.nspname = $1 and c.relname ~ $2 and c.relkind = 'r'`, e.schema, ended.PartitionNames)
	var name string
	var apart bool
	var bytes int64
	_, err := pgx.ForEachRow(rows, []any{&name, &apart, &bytes}, func() error {
		one, ok := ended.PartitionNamed(name)
		if !ok {
			return nil
		}
		h.Ended += bytes
		over := one.Over()
		switch {
		case apart:
			h.Apart = append(h.Apart, name)
		case !over.IsZero() && h.Now.Sub(over) > time.Hour:
			h.Over = append(h.Over, name)
		}
		return nil
	})
	return err
}
