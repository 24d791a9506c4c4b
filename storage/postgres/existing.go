package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/taskengine/taskengine/task"
)

// Existing implements [storage.Tasks].
func (v *verbs) Existing(ctx context.Context, ts ...*task.Task) (out []task.ID, err error) {
	err = v.again(ctx, "existing", func() error {
		out = make([]task.ID, len(ts))
		var p pipe
		for i, t := range ts {
			found := func(rows pgx.Rows) error {
				r := reader{values: rows.RawValues()}
				copy(out[i][:], r.next())
				return r.err
			}
			if t.Key != "" {
				p.add(found, v.store.sql.findKey, []byte(t.Type), []byte(t.OrderingKey), []byte(t.Key))
			}
			p.add(found, v.store.sql.hasID, t.ID) // counts before the key
		}
		if len(ts) == 0 {
			return nil
		}
		return v.read(ctx, &p)
	})
	return out, err
}
