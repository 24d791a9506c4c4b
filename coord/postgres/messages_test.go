//go:build unix

package postgres_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/taskengine/taskengine/coord"
	"github.com/taskengine/taskengine/coord/postgres"
)

// inbox has the messages of one call of Receive.
type inbox struct {
	mu     sync.Mutex
	begins int      // guarded by mu
	got    []string // guarded by mu
}

// receiveMessages receives messages of the topic "topic" until the test ends.
func receiveMessages(t *testing.T, n *node) *inbox {
	t.Helper()
	i, m := &inbox{}, messages(t, n.Coord)
	done := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(func() { cancel(); <-done })
	go func() {
		defer close(done)
		_ = m.Receive(ctx, "topic", func(message []byte) {
			i.mu.Lock()
			defer i.mu.Unlock()
			if message == nil {
				i.begins++
				return
			}
			i.got = append(i.got, string(message))
		})
	}()
	eventually(t, "a node that receives messages", func() bool { return i.begun() > 0 })
	return i
}

func (i *inbox) begun() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.begins
}

func (i *inbox) all() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return strings.Join(i.got, " ")
}

func send(t *testing.T, n *node, message string) {
	t.Helper()
	if err := messages(t, n.Coord).Send("topic", []byte(message)); err != nil {
		t.Fatal(err)
	}
}

func TestThereAreNoMessagesWithoutAConnectionThatListens(t *testing.T) {
	n := connect(t, database(t), setup{Options: postgres.Options{Listen: postgres.ListenOff}})
	if _, err := n.Messages(); !errors.Is(err, postgres.ErrNoListen) {
		t.Errorf("Messages returned %v, want %v", err, postgres.ErrNoListen)
	}
}

func TestAMessageComesByTheDatabaseThoughTheNodeIsAlone(t *testing.T) {
	var sent statements
	n := connect(t, database(t), setup{tracer: &sent})
	i := receiveMessages(t, n)
	send(t, n, "alone")
	eventually(t, "the message", func() bool { return i.all() == "alone" })
	if len(sent.with("pg_notify")) == 0 {
		t.Error("the message did not go to the database")
	}
}

func TestALastMessageIsSentBeforeANodeIsClosed(t *testing.T) {
	url := database(t)
	i := receiveMessages(t, connect(t, url, setup{}))
	for _, message := range []string{"1", "2", "3"} {
		n := connect(t, url, setup{})
		send(t, n, message)
		_ = n.Close()
		if err := messages(t, n.Coord).Send("topic", nil); !errors.Is(err, coord.ErrClosed) {
			t.Errorf("Send returned %v after Close", err)
		}
	}
	eventually(t, "the last messages", func() bool { return i.all() == "1 2 3" })
}

func TestAReceiverLearnsThatItsConnectionIsReplaced(t *testing.T) {
	url := database(t)
	n := connect(t, url, setup{})
	i := receiveMessages(t, n)
	for range 3 {
		before := i.begun()
		n.wire.Cut()
		eventually(t, "the end of the connection that listens", func() bool { return !n.Listening() })
		n.wire.Heal()
		eventually(t, "the news that messages may have been lost", func() bool { return i.begun() > before })
	}
	send(t, n, "afterwards")
	eventually(t, "a message afterwards", func() bool { return i.all() == "afterwards" })
}

func TestMessagesThatAreNotUnderstoodAreIgnored(t *testing.T) {
	url := database(t)
	n := connect(t, url, setup{})
	i := receiveMessages(t, n)
	for _, garbage := range []string{"m", "m:", "m:!", "m:dG9waWM:!", "m:dG9waWM:AAAA="} {
		ask[string](t, url, "SELECT pg_notify('taskengine', $1)::text", garbage)
	}
	send(t, n, "good")
	eventually(t, "a good message", func() bool { return i.all() != "" })
	if got := i.all(); got != "good" {
		t.Errorf("received %q", got)
	}
}
