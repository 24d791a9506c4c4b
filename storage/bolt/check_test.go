//go:build !race

package bolt_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/bolt"
)

// TestACheckFindsWhateverMakesATaskUnreadable changes single bits of a file: if a check finds nothing,
// every task can be read by its id, with its payload, and is unchanged.
func TestACheckFindsWhateverMakesATaskUnreadable(t *testing.T) {
	path, ids := filled(t, 300)
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	changed := filepath.Join(t.TempDir(), "tasks.db")
	random := rand.New(rand.NewPCG(1, 1))
	const page = 4096
	found := 0
	for i := range 600 {
		at := random.IntN(len(content))
		if i%2 == 0 { // in the key headers of a page
			at = at/page*page + random.IntN(300)
		}
		bad := bytes.Clone(content)
		bad[at] ^= 1 << random.IntN(8)
		if err := os.WriteFile(changed, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := bolt.Open(changed, bolt.Options{ReadOnly: true})
		if err != nil {
			found++
			continue
		}
		if err := s.Check(t.Context()); err != nil {
			if found++; !errors.Is(err, bolt.ErrDamaged) {
				t.Errorf("byte %d: %v", at, err)
			}
		} else {
			for n, id := range ids {
				got, err := s.Get(t.Context(), id)
				if err != nil || !bytes.Equal(got.Payload, payload(n, n%2 == 1)) {
					t.Errorf("byte %d: the check is content, and task %d cannot be read: %v", at, n, err)
					break
				}
			}
			if counts, err := s.Count(t.Context(), storage.Filter{}); err != nil || len(counts) != 1 {
				t.Errorf("byte %d: the check is content, and tasks cannot be counted: %v, %v", at, counts, err)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if found < 100 {
		t.Errorf("of 600 changes %d were found", found)
	}
}
