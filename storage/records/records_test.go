package records_test

import (
	"errors"
	"testing"

	"github.com/taskengine/taskengine/storage"
	"github.com/taskengine/taskengine/storage/records"
	"github.com/taskengine/taskengine/storage/storagetest"
	"github.com/taskengine/taskengine/task"
)

// kept is a store under test, which can be opened again: the memory stays.
type kept struct {
	*records.Store
	memory *memory
}

func (k kept) Reopen(t testing.TB) storage.Store {
	if err := k.Close(); err != nil {
		t.Fatal(err)
	}
	return open(t, k.memory)
}

func open(t testing.TB, m *memory) kept {
	t.Helper()
	s, err := records.Open(t.Context(), "memory", m)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return kept{s, m}
}

func TestStore(t *testing.T) {
	storagetest.Run(t, func(t testing.TB) storage.Store { return open(t, newMemory()) })
}

var errDisk = errors.New("the disk is gone")

func (m *memory) fail(commits, cursors error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refused, m.broken = commits, cursors
}

func TestAStoreWithACommitThatFailedRefusesEveryCall(t *testing.T) {
	s := open(t, newMemory())
	s.memory.fail(errDisk, nil)
	row := func(id byte) *task.Task {
		return &task.Task{ID: task.ID{id}, Version: 1, State: task.Submitted, Type: "mail"}
	}
	if _, err := s.Insert(t.Context(), row(1)); !errors.Is(err, errDisk) || !errors.Is(err, storage.ErrBroken) {
		t.Errorf("the insert ends with %v", err)
	}
	s.memory.fail(nil, nil)
	if _, err := s.Insert(t.Context(), row(2)); !errors.Is(err, storage.ErrBroken) {
		t.Errorf("the next insert ends with %v", err)
	}
	if _, err := s.Get(t.Context(), task.ID{1}); !errors.Is(err, storage.ErrBroken) {
		t.Errorf("a read ends with %v", err)
	}
	again := s.Reopen(t)
	if _, err := again.Insert(t.Context(), row(3)); err != nil {
		t.Errorf("after it was opened again: %v", err)
	}
}

func TestAScanThatEndsEarlyIsNoShortAnswer(t *testing.T) {
	s := open(t, newMemory())
	if _, err := s.Insert(t.Context(), &task.Task{ID: task.ID{1}, Version: 1, State: task.Submitted, Type: "mail"}); err != nil {
		t.Fatal(err)
	}
	s.memory.fail(nil, errDisk)
	if _, err := s.Ready(t.Context(), storage.ReadyQuery{Queue: task.Queue{Type: "mail"}, Limit: 9}); !errors.Is(err, errDisk) {
		t.Errorf("Ready ends with %v", err)
	}
	if _, err := s.Count(t.Context(), storage.Filter{}); !errors.Is(err, errDisk) {
		t.Errorf("Count ends with %v", err)
	}
	s.memory.fail(nil, nil)
	if err := s.Check(t.Context()); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

func TestABackendWithSomethingElseIsRefusedAndClosed(t *testing.T) {
	m := newMemory()
	foreign, err := m.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(foreign.Put([]byte("somebody's"), []byte("data")), foreign.Commit()); err != nil {
		t.Fatal(err)
	}
	closing := &closes{Backend: m}
	if _, err := records.Open(t.Context(), "memory", closing); err == nil || closing.times != 1 {
		t.Errorf("Open ends with %v and has closed the backend %d times", err, closing.times)
	}
	v, err := m.View(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got, found, err := v.Get([]byte("somebody's")); string(got) != "data" || !found || err != nil {
		t.Errorf("it has changed the former value: %q, %t, %v", got, found, err)
	}
}

// closes counts how often a backend is closed.
type closes struct {
	records.Backend
	times int
}

func (c *closes) Close() error {
	c.times++
	return c.Backend.Close()
}

// Dump implements [storagetest.Dumper].
func (k kept) Dump() (all []byte, err error) {
	k.memory.mu.Lock()
	defer k.memory.mu.Unlock()
	k.memory.pairs.Ascend(func(p pair) bool {
		all = append(append(all, p.key...), p.value...)
		return true
	})
	return all, nil
}
