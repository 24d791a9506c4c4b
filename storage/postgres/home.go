package postgres

import (
	"context"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/postgres/internal/home"
)

var _ storage.Homed = (*Store)(nil)

// Home implements [storage.Homed].
func (s *Store) Home(ctx context.Context) (storage.Home, error) {
	var row home.Row
	err := s.again(ctx, "look which shards are here", func() (err error) {
		row, err = home.Read(ctx, s.pool, s.slots.schema)
		return err
	})
	return row.Home, err
}
