package main

import (
	"context"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// sink is the table of the orders.
type sink struct {
	pool *pgxpool.Pool
	lose string // orders with a number that ends with it are lost, so that one can see the witness notice it
}

// upsert writes some orders. They are sorted, so that two statements with the same orders do not wait for each other. A state that is
// older than the known one changes nothing.
const upsert = `
insert into orders (platform, number, changed, status, cents)
select distinct on (number) $1, number, changed, status, cents
from unnest($2::text[], $3::timestamptz[], $4::text[], $5::bigint[]) as new (number, changed, status, cents)
order by number, changed desc
on conflict (platform, number) do update
set changed = excluded.changed, status = excluded.status, cents = excluded.cents, writes = orders.writes + 1, last_written = now()
where excluded.changed >= orders.changed`

// write writes orders of a platform. It may be repeated, and may write them in any order.
func (s *sink) write(ctx context.Context, platform string, orders []order) error {
	var numbers, states []string
	var changed []time.Time
	var cents []int64
	for _, o := range orders {
		if s.lose != "" && strings.HasSuffix(o.number, s.lose) {
			continue
		}
		numbers, changed, states, cents = append(numbers, o.number), append(changed, o.changed), append(states, o.status), append(cents, o.cents)
	}
	_, err := s.pool.Exec(ctx, upsert, platform, numbers, changed, states, cents)
	return err
}
