//go:build !race

package pebble_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/pebble"
)

// TestAChangedBitOfALogIsNoticed changes single bits of the log of a store that was closed, and of a store
// after a kill of its process: Open fails, or the store has all tasks. The last few inserts before a kill
// are excepted, because nothing after them records that they were durable.
func TestAChangedBitOfALogIsNoticed(t *testing.T) {
	for _, closed := range []bool{true, false} {
		t.Run(fmt.Sprintf("closed %t", closed), func(t *testing.T) {
			disk, all, before := written(t, closed)
			name, content := newestLog(t, disk)
			end := len(bytes.TrimRight(content, "\x00"))
			random := rand.New(rand.NewPCG(1, 1))
			refused := 0
			for i := range 90 {
				at := random.IntN(end)
				if i%3 == 0 { // a header of a chunk at the beginning of a block
					at = at/(32<<10)*(32<<10) + random.IntN(19)
				}
				overwrite(t, disk, name, at, content[at]^1<<random.IntN(8))
				s, err := pebble.Open("db", pebble.Options{FS: disk, CacheSize: 1 << 20, MemTableSize: 4 << 20, ReadOnly: true})
				overwrite(t, disk, name, at, content[at])
				if err != nil {
					if refused++; !errors.Is(err, pebble.ErrDamaged) {
						t.Errorf("byte %d: %v", at, err)
					}
					continue
				}
				counts, err := s.Count(t.Context(), storage.Filter{})
				if err := errors.Join(err, s.Check(t.Context()), s.Close()); err != nil {
					t.Errorf("byte %d: %v", at, err)
				}
				n := 0
				for _, of := range counts {
					n += int(of)
				}
				if n < before {
					t.Errorf("byte %d of %d is not noticed, and %d of %d tasks are there", at, end, n, all)
				}
			}
			if refused < 60 {
				t.Errorf("of 90 changes %d were noticed", refused)
			}
		})
	}
}
