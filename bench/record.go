package bench

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/taskengine/taskengine/engine/task"
)

// record is what happened to one task. Its times are nanoseconds since the base of its
// session by the wall clock, which is the engine's; 0 is never. It has no pointers, so
// that processes can share it and the collector does not look at it. Every field is
// written by one goroutine at a time: those who see a task's stages follow each other.
type record struct {
	id       task.ID
	intended int64 // when the load wanted it submitted
	due      int64 // the task's own time
	called   int64 // when Submit was called
	acked    int64 // when it returned
	durable  int64 // when the engine knew the row to be durable
	grabbed  int64 // when the engine says that it took it from the line the first time
	started  int64 // when its handler was first called
	begun    int64 // ... and last
	returned int64 // when its handler last returned
	saved    int64 // when its end was durable
	calls    atomic.Int32
	faults   atomic.Int32 // calls that ended with an error
	refused  atomic.Int32 // ... because nobody could take the task: it was not run
	over     atomic.Int32 // how often it exceeded a limit
	flow     int32
	key      int32
	state    task.State // the one it ended in
}

// Records are kept in chunks so that their place never changes.
const (
	chunkBits = 15
	chunkSize = 1 << chunkBits
	maxChunks = maxTasks/chunkSize + 2
)

type chunk [chunkSize]record

// records are what happened to all tasks of a session, by number. A task's number is in
// its id, so that whoever sees the task finds its record without a lock.
type records struct {
	tag    uint16 // in the ids of this session
	ids    *task.IDs
	base   time.Time // of all times, by the wall clock
	n      atomic.Int64
	mu     sync.Mutex // held while a chunk is added
	chunks [maxChunks]atomic.Pointer[chunk]
}

func newRecords(base time.Time) *records {
	var seed [32]byte
	for i := range seed {
		seed[i] = byte(rand.Uint32())
	}
	return &records{tag: uint16(rand.Uint32()), ids: task.NewIDs(seed), base: base.Round(0)}
}

// reserve makes room for n records, and has it in memory before it is needed.
func (r *records) reserve(n int) {
	for c := 0; c<<chunkBits < n; c++ {
		r.grow(c)
	}
}

func (r *records) grow(c int) *chunk {
	r.mu.Lock()
	defer r.mu.Unlock()
	if old := r.chunks[c].Load(); old != nil {
		return old
	}
	fresh := new(chunk)
	for i := range fresh {
		fresh[i].key = -1 // touches every page
	}
	r.chunks[c].Store(fresh)
	return fresh
}

// add returns the next record and its number.
func (r *records) add() (int64, *record) {
	i := r.n.Add(1) - 1
	c := int(i >> chunkBits)
	if i&(chunkSize-1) == chunkSize/2 && c+1 < maxChunks && r.chunks[c+1].Load() == nil {
		go r.grow(c + 1)
	}
	if r.chunks[c].Load() == nil {
		r.grow(c)
	}
	return i, r.at(i)
}

// at returns the record with a number below n.
func (r *records) at(i int64) *record { return &r.chunks[i>>chunkBits].Load()[i&(chunkSize-1)] }

// all yields every record.
func (r *records) all(yield func(int64, *record) bool) {
	for i := range r.n.Load() {
		if !yield(i, r.at(i)) {
			return
		}
	}
}

// since returns a time as records have it.
func (r *records) since(t time.Time) int64 { return max(1, t.UnixNano()-r.base.UnixNano()) }

// time is the opposite of since.
func (r *records) time(ns int64) time.Time { return r.base.Add(time.Duration(ns)) }

// newID returns an id that has the number of a record in it.
func (r *records) newID(i int64, now time.Time) task.ID {
	id := r.ids.Next(now)
	id[9], id[10] = byte(r.tag>>8), byte(r.tag)
	for b := range 5 {
		id[15-b] = byte(i >> (8 * b))
	}
	return id
}

// of returns the record of the task with an id, nil if it is not of this session.
func (r *records) of(id task.ID) *record {
	if id[9] != byte(r.tag>>8) || id[10] != byte(r.tag) {
		return nil
	}
	i := int64(0)
	for _, b := range id[11:] {
		i = i<<8 | int64(b)
	}
	if i >= r.n.Load() {
		return nil
	}
	if rec := r.at(i); rec.id == id {
		return rec
	}
	return nil
}
