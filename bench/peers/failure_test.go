package main

import (
	"errors"
	"sync"
	"testing"
)

func TestTheFirstErrorOfWorkersIsKept(t *testing.T) {
	first := errors.New("first")
	var f workFailure
	if err := f.err(); err != nil {
		t.Errorf("before any it is %v", err)
	}
	f.note(first)
	f.note(errors.New("later"))
	if err := f.err(); err != first {
		t.Errorf("it is %v, want the first", err)
	}
	f.close()
	f.note(errors.New("after the end"))
	if err := f.err(); err != first {
		t.Errorf("when the peer is closed it is %v, want the former value", err)
	}
}

func TestErrorsOfClosingAreNone(t *testing.T) {
	var f workFailure
	f.close()
	var workers sync.WaitGroup
	for range 4 {
		workers.Go(func() { f.note(errors.New("the connection is closed")) })
	}
	workers.Wait()
	if err := f.err(); err != nil {
		t.Errorf("it is %v", err)
	}
}
