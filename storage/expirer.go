package storage

import (
	"context"
	"time"
)

// Expirer is implemented by stores that remove what has ended in a way of their own, and
// better than row by row.
type Expirer interface {
	// Expire removes rows that are Done, Failed or Cancelled and whose NextEventAt was some
	// time before now: a part of the time for which they were to be kept, that the store
	// decides. It returns how many rows, nearly, and when it is worth to call it again, zero
	// if nothing is to be removed.
	Expire(ctx context.Context, now time.Time) (removed int64, next time.Time, err error)
}
