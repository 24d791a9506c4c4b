//go:build unix

package pgtest

import (
	"context"
	"testing"
	"time"
)

func TestAPausedServerAnswersWhenItIsResumed(t *testing.T) {
	s := startOne(t)
	conn := connect(t, s.URL("postgres"))
	if err := s.Pause(); err != nil {
		t.Fatal(err)
	}
	answer := make(chan error, 1)
	go func() {
		_, err := conn.Exec(context.WithoutCancel(t.Context()), "SELECT 1")
		answer <- err
	}()
	select {
	case err := <-answer:
		t.Errorf("a paused server answers: %v", err)
	case <-time.After(300 * time.Millisecond):
	}
	if err := s.Resume(); err != nil {
		t.Fatal(err)
	}
	if err := <-answer; err != nil {
		t.Error(err)
	}
}

func TestAServerThatIsDownIsNotPaused(t *testing.T) {
	s := startOne(t)
	if err := s.Crash(); err != nil {
		t.Fatal(err)
	}
	if s.Pause() == nil || s.Resume() == nil {
		t.Error("a server that has crashed is paused or resumed")
	}
}
