package storage

import "context"

// LiveCounter is implemented by stores that keep count while rows change, so that Count reads
// no rows: whoever changes rows notes how many more or fewer there are now, and Count adds
// the notes up.
type LiveCounter interface {
	Inspector

	// Fold replaces notes by their sums, if there are enough of them to be worth it, and
	// returns how many it replaced. Count answers the same before and after, and costs less.
	// It is to be called every few seconds while rows change, by one process at a time; a
	// second one does nothing.
	Fold(ctx context.Context) (notes int64, err error)
}
