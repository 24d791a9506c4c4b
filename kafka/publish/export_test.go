package publish

import (
	"context"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Look returns whether the transaction of a record was committed, as a new process finds out.
func Look(c Config, r *kgo.Record) (committed bool, err error) {
	x, err := newTransactor(c)
	if err != nil {
		return false, err
	}
	defer x.close(context.Background())
	return x.look(context.Background(), r)
}
