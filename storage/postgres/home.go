package postgres

import (
	"context"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/postgres/internal/home"
)

var _ storage.ShardOwner = (*Store)(nil)

// Holdings implements [storage.ShardOwner].
func (s *Store) Holdings(ctx context.Context) (storage.Holdings, error) {
	var row home.Row
	err := s.again(ctx, "look which shards are here", func() (err error) {
		row, err = home.Read(ctx, s.pool, s.slots.schema)
		return err
	})
	return row.Holdings, err
}
