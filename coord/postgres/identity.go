package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/taskengine/taskengine/coord"
)

var _ coord.Identified = (*Coord)(nil)

// identitySetting is the setting that has the ID of the cluster. It is written once.
const identitySetting = "taskengine/cluster"

// Identity implements [coord.Identified]. The ID is in the tables, so it does not depend on the
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

func (c *Coord) identity(ctx context.Context) (string, error) {
	const read = "SELECT value FROM {schema}.setting WHERE name = $1::text AND scope = ''"
	var id []byte
	err := c.pool.QueryRow(ctx, c.sql(read), identitySetting).Scan(&id)
	if !errors.Is(err, pgx.ErrNoRows) {
		return string(id), err
	}
	// Of several nodes, the first one inserts. A second statement sees what it has inserted.
	_, err = c.pool.Exec(ctx, c.sql(`INSERT INTO {schema}.setting (name, scope, value)
		VALUES ($1::text, '', $2::bytea) ON CONFLICT DO NOTHING`), identitySetting, []byte(newID().String()))
	if err != nil {
		return "", err
	}
	err = c.pool.QueryRow(ctx, c.sql(read), identitySetting).Scan(&id)
	return string(id), err
}
