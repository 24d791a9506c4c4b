package tasklog

import (
	"hash/maphash"
	"math/bits"

	"github.com/taskengine/taskengine/task"
)

// filter is a Bloom filter of tasks. With the number of bits that newFilter chooses and lines of
// the usual 150 bytes, each of another task, the rate of false positives is one in eighty.
type filter struct {
	words []uint64
	seed  maphash.Seed
}

// newFilter returns a filter for the tasks of a segment with this number of bytes.
func newFilter(bytes int64, seed maphash.Seed) *filter {
	n := max(uint64(bytes)/16, 1024)
	return &filter{words: make([]uint64, 1<<bits.Len64((n-1)/64)), seed: seed}
}

// probes calls fn with the bits of a task until fn returns false.
func (f *filter) probes(id task.ID, fn func(word *uint64, bit uint64) bool) bool {
	h := maphash.Bytes(f.seed, id[:])
	step := h>>32 | 1
	for range 4 {
		at := h % (uint64(len(f.words)) * 64)
		if !fn(&f.words[at/64], 1<<(at%64)) {
			return false
		}
		h += step
	}
	return true
}

func (f *filter) add(id task.ID) {
	f.probes(id, func(word *uint64, bit uint64) bool { *word |= bit; return true })
}

// mayHave reports false only if the task was not added.
func (f *filter) mayHave(id task.ID) bool {
	return f.probes(id, func(word *uint64, bit uint64) bool { return *word&bit != 0 })
}

// join adds all tasks of another filter of the same size.
func (f *filter) join(other *filter) {
	for i, w := range other.words {
		f.words[i] |= w
	}
}
