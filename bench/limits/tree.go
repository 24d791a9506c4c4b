package limits

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/google/btree"
)

// treeDegree is the degree of the trees of the engine.
const treeDegree = 32

func treeProbes() []probe {
	sized := func(name, count string, items int) probe {
		return probe{
			limits:  []Limit{{name, Nanoseconds, "take the least of " + count + " items and insert another"}},
			share:   1,
			measure: func(ctx context.Context, t *trial) error { return measureTree(ctx, t, items) },
		}
	}
	return []probe{sized("btree/1k", "1 thousand", 1_000), sized("btree/1m", "1 million", 1_000_000)}
}

// measureTree uses a tree as a queue by time: it inserts items at random places.
func measureTree(ctx context.Context, t *trial, items int) error {
	const burst = 256 // pairs between two looks at the clock
	chance := rand.New(rand.NewPCG(1, 1))
	tree := btree.NewOrderedG[uint64](treeDegree)
	for tree.Len() < items && ctx.Err() == nil {
		tree.ReplaceOrInsert(chance.Uint64N(1 << 40))
	}
	return t.repeat(ctx, func(end time.Time) ([]float64, error) {
		pairs := 0
		began := time.Now()
		for first := true; first || time.Now().Before(end) && ctx.Err() == nil; first = false {
			for range burst {
				least, _ := tree.DeleteMin()
				tree.ReplaceOrInsert(least + chance.Uint64N(1<<40))
			}
			pairs += burst
		}
		return []float64{float64(time.Since(began)) / float64(pairs)}, nil
	})
}
