package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/taskengine/taskengine/coord"
)

// identitySetting is the setting that has the ID of the cluster. It is written once.
const identitySetting = "taskengine/cluster"

// Identity implements [coord.Membership]. The ID is in the tables, so it does not depend on the
// address by which a node reaches the database. It stays after a failover and a restored backup.
// The first call in a database creates it.
func (c *Coord) Identity(ctx context.Context) (coord.Identity, error) {
	if c.isClosed() {
		return coord.Identity{}, coord.ErrClosed
	}
	id, err := c.identity(ctx)
	if err != nil {
		return coord.Identity{}, fmt.Errorf("read the identity of the cluster: %w", err)
	}
	at := c.pool.Config().ConnConfig
	return coord.Identity{
		Driver: "postgres", ID: id, Name: fmt.Sprintf("%s:%d/%s schema %s", at.Host, at.Port, at.Database, c.schema),
	}, nil
}

func (c *Coord) identity(ctx context.Context) (id string, err error) {
	const read = "SELECT value FROM {schema}.setting WHERE name = $1::text AND scope = ''"
	err = c.within(ctx, identityPatience, func(tx pgx.Tx) error {
		var value []byte
		err := tx.QueryRow(ctx, c.sql(read), identitySetting).Scan(&value)
		if errors.Is(err, pgx.ErrNoRows) {
			// Of several nodes, the first one inserts. A further statement sees that row.
			_, err = tx.Exec(ctx, c.sql(`INSERT INTO {schema}.setting (name, scope, value)
				VALUES ($1::text, '', $2::bytea) ON CONFLICT DO NOTHING`), identitySetting, []byte(newID().String()))
			if err != nil {
				return err
			}
			err = tx.QueryRow(ctx, c.sql(read), identitySetting).Scan(&value)
		}
		id = string(value)
		return err
	})
	return id, err
}
