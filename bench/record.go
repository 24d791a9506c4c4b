package bench

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/taskengine/taskengine/task"
)

// record has the times and the end of one task. Its times are nanoseconds since the base of the
// repetition, by the wall clock, which the engine uses; 0 is never. It has no pointers, so that
// processes can share it and the garbage collector does not scan it. Every field is written by one
// goroutine at a time, because the stages of a task follow each other.
type record struct {
	id       task.ID
	intended int64 // when the load intended to submit it
	due      int64 // when the task is due, if it is delayed
	called   int64 // when Submit was called
	acked    int64 // when it returned
	durable  int64 // when the engine knew the row to be durable
	grabbed  int64 // when it was first grabbed, according to the engine
	started  int64 // when its handler was first called
	begun    int64 // ... and last
	returned int64 // when its handler last returned
	saved    int64 // when its end was durable
	calls    atomic.Int32
	faults   atomic.Int32 // calls that ended with an error
	refused  atomic.Int32 // ... because no handler could take the task: it was not run
	over     atomic.Int32 // number of times that it exceeded a limit
	flow     int32
	key      int32
	state    task.State // the final state
}

// Records are allocated in chunks, so that they never move.
const (
	chunkBits = 15
	chunkSize = 1 << chunkBits
	maxChunks = maxTasks/chunkSize + 2
)

type chunk [chunkSize]record

// records has the records of all tasks of a repetition, by number. The number is part of the id of
// the task, so that its record is found without a lock.
type records struct {
	tag    uint16 // in the ids of this repetition
	ids    *task.IDs
	base   time.Time // origin of all times, by the wall clock
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

// reserve allocates n records and touches their memory before it is needed.
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

// since returns a time as in records.
func (r *records) since(t time.Time) int64 { return max(1, t.UnixNano()-r.base.UnixNano()) }

// time is the inverse of since.
func (r *records) time(ns int64) time.Time { return r.base.Add(time.Duration(ns)) }

// newID returns an id with the number of a record.
func (r *records) newID(i int64, now time.Time) task.ID {
	id := r.ids.Next(now)
	id[9], id[10] = byte(r.tag>>8), byte(r.tag)
	for b := range 5 {
		id[15-b] = byte(i >> (8 * b))
	}
	return id
}

// of returns the record of the task with this id, or nil if it is not of this repetition.
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
