package coordtest

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/taskengine/taskengine/coord"
)

// RunMessages runs the suite of [coord.Messages]. A message may be lost, so one that must arrive is sent repeatedly
// until it has.
func RunMessages(t *testing.T, b Backend[coord.Messages]) {
	b.run(t, "every receiver of the topic gets a message, those of its own node included", messagesEveryone)
	b.run(t, "a receiver learns of the beginning before it gets a message", messagesBegin)
	b.run(t, "topics are apart", messagesTopics)
	b.run(t, "a topic and a message may have any bytes", messagesBytes)
	b.run(t, "a topic and a message may have 4096 bytes together and no more", messagesSize)
	b.run(t, "a receiver gets only what was sent", messagesInventNothing)
	b.run(t, "the slice is the sender's again after Send", messagesOwnSlice)
	b.run(t, "fn is called one at a time", messagesOneCall)
	b.run(t, "a slow receiver holds up neither sender nor others", messagesSlow)
	b.run(t, "a sender needs no receiver", messagesNobody)
	b.run(t, "Receive returns nil when its context has ended", messagesEnd)
	b.run(t, "a severed node sends and receives what comes later", messagesSevered)
}

// receiving is one call of Receive.
type receiving struct {
	result chan error // the result of Receive
	cancel context.CancelFunc

	mu     sync.Mutex
	got    map[string]int // guarded by mu: how often
	begins int            // guarded by mu: how many beginnings it got
	early  bool           // guarded by mu: it got a message before the first beginning
}

func receiveMessages(e *env[coord.Messages], node coord.Messages, topic string) *receiving {
	r := &receiving{result: make(chan error, 1), got: map[string]int{}}
	ctx, cancel := context.WithCancel(e.Context())
	r.cancel = cancel
	e.start(func(context.Context) {
		defer cancel()
		r.result <- node.Receive(ctx, topic, func(message []byte) {
			r.mu.Lock()
			defer r.mu.Unlock()
			if message == nil {
				r.begins++
				return
			}
			r.early = r.early || r.begins == 0
			r.got[string(message)]++
		})
	})
	return r
}

func (r *receiving) has(message string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.got[message] > 0
}

func sendMessage(e *env[coord.Messages], node coord.Messages, topic, message string) {
	e.Helper()
	if err := node.Send(topic, []byte(message)); err != nil {
		e.Fatalf("Send returned %v", err)
	}
}

// deliver sends a message from node until all of the receivers have it.
func deliver(e *env[coord.Messages], node coord.Messages, topic, message string, all ...*receiving) {
	e.Helper()
	again := time.Now()
	e.eventually("a message sent many times", func() bool {
		if !time.Now().Before(again) {
			sendMessage(e, node, topic, message)
			again = time.Now().Add(50 * time.Millisecond)
		}
		return !slices.ContainsFunc(all, func(r *receiving) bool { return !r.has(message) })
	})
}

func messagesEveryone(e *env[coord.Messages]) {
	a, b := e.connect(), e.connect()
	own, twin, far := receiveMessages(e, a, "topic"), receiveMessages(e, a, "topic"), receiveMessages(e, b, "topic")
	for n := range 5 {
		deliver(e, a, "topic", fmt.Sprint("from a ", n), own, twin, far)
		deliver(e, b, "topic", fmt.Sprint("from b ", n), own, twin, far)
	}
}

func messagesBegin(e *env[coord.Messages]) {
	a, b := e.connect(), e.connect()
	silentOne := receiveMessages(e, e.connect(), "another topic")
	e.eventually("the beginning, without any message", func() bool {
		silentOne.mu.Lock()
		defer silentOne.mu.Unlock()
		return silentOne.begins > 0
	})
	for range 10 {
		r := receiveMessages(e, a, "topic")
		deliver(e, b, "topic", "message", r)
		r.mu.Lock()
		if r.early {
			e.Error("a message came before the first beginning")
		}
		r.mu.Unlock()
		r.cancel()
	}
}

func messagesTopics(e *env[coord.Messages]) {
	node := e.connect()
	topics := []string{"", "a", "ab", "a:b"}
	var all []*receiving
	for _, topic := range topics {
		all = append(all, receiveMessages(e, e.connect(), topic))
	}
	for i, topic := range topics {
		deliver(e, node, topic, "to "+topic, all[i])
	}
	for i, topic := range topics {
		deliver(e, node, topic, "again to "+topic, all[i])
		all[i].mu.Lock()
		if len(all[i].got) != 2 {
			e.Errorf("the receiver of %q got %v", topic, all[i].got)
		}
		all[i].mu.Unlock()
	}
}

func messagesBytes(e *env[coord.Messages]) {
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	a, b := e.connect(), e.connect()
	for _, topic := range []string{"topic", string(every)} {
		own, far := receiveMessages(e, a, topic), receiveMessages(e, b, topic)
		for _, message := range []string{string(every), "", "\x00", "é", ":"} {
			deliver(e, a, topic, message, own, far)
		}
	}
}

func messagesSize(e *env[coord.Messages]) {
	node := e.connect()
	for _, n := range []int{0, 1, 100, coord.MaxMessage} {
		topic := string(bytes.Repeat([]byte{'t'}, n))
		r := receiveMessages(e, e.connect(), topic)
		deliver(e, node, topic, string(bytes.Repeat([]byte{255}, coord.MaxMessage-n)), r)
		if err := node.Send(topic, make([]byte, coord.MaxMessage-n+1)); err == nil {
			e.Errorf("a topic of %d bytes with a message that is one byte too long was taken", n)
		}
	}
}

func messagesInventNothing(e *env[coord.Messages]) {
	const senders, messages = 3, 200
	r := receiveMessages(e, e.connect(), "topic")
	sent := map[string]bool{"last": true}
	var wg sync.WaitGroup
	for s := range senders {
		node := e.connect()
		for n := range messages {
			sent[fmt.Sprint(s, "/", n)] = true
		}
		wg.Go(func() {
			for n := range messages {
				if err := node.Send("topic", fmt.Append(nil, s, "/", n)); err != nil {
					e.Errorf("Send returned %v", err)
				}
			}
		})
	}
	wg.Wait()
	deliver(e, e.connect(), "topic", "last", r)
	r.mu.Lock()
	defer r.mu.Unlock()
	for message := range r.got {
		if !sent[message] {
			e.Errorf("received %q, which was not sent", message)
		}
	}
}

func messagesOwnSlice(e *env[coord.Messages]) {
	node := e.connect()
	r := receiveMessages(e, node, "topic")
	b := make([]byte, 1)
	for n := range byte(20) {
		e.eventually("a message sent many times", func() bool {
			b[0] = n
			if err := node.Send("topic", b); err != nil {
				e.Fatalf("Send returned %v", err)
			}
			b[0] = 255
			return r.has(string([]byte{n}))
		})
	}
	if r.has("\xff") {
		e.Error("a receiver got what was written to the slice after Send")
	}
}

// messagesOneCall lets fn run until the next message was sent.
func messagesOneCall(e *env[coord.Messages]) {
	var a alone
	called, release := make(chan struct{}), make(chan struct{})
	node := e.connect()
	e.start(func(ctx context.Context) {
		_ = node.Receive(ctx, "topic", func([]byte) {
			defer a.enter(e.T, "fn")()
			select {
			case called <- struct{}{}:
			case <-ctx.Done():
			}
			select {
			case <-release:
			case <-ctx.Done():
			}
		})
	})
	other := receiveMessages(e, node, "topic")
	for n := range 10 {
		e.eventually("a message sent many times", func() bool {
			sendMessage(e, node, "topic", fmt.Sprint(n))
			select {
			case <-called:
				return true
			default:
				return false
			}
		})
		deliver(e, node, "topic", fmt.Sprint("other ", n), other)
		e.settle()
		release <- struct{}{}
	}
}

func messagesSlow(e *env[coord.Messages]) {
	node := e.connect()
	gate := make(chan struct{})
	var mu sync.Mutex
	awake := false // guarded by mu: it got the last message
	e.start(func(ctx context.Context) {
		_ = node.Receive(ctx, "topic", func(message []byte) {
			select {
			case <-gate:
			case <-ctx.Done():
			}
			mu.Lock()
			defer mu.Unlock()
			awake = awake || string(message) == "last"
		})
	})
	quick := receiveMessages(e, e.connect(), "topic")
	done := make(chan struct{})
	e.start(func(context.Context) {
		defer close(done)
		for n := range 5000 {
			if err := node.Send("topic", fmt.Append(nil, n)); err != nil {
				e.Errorf("Send returned %v", err)
			}
		}
	})
	receive(e, "Send to return though a receiver is slow", done)
	deliver(e, node, "topic", "for the quick one", quick)
	close(gate)
	e.eventually("a message for the receiver that was slow", func() bool {
		sendMessage(e, node, "topic", "last")
		mu.Lock()
		defer mu.Unlock()
		return awake
	})
}

func messagesNobody(e *env[coord.Messages]) {
	node := e.connect()
	for n := range 1000 {
		sendMessage(e, node, "topic", fmt.Sprint(n))
	}
}

func messagesEnd(e *env[coord.Messages]) {
	node := e.connect()
	gone, stays := receiveMessages(e, node, "topic"), receiveMessages(e, node, "topic")
	deliver(e, node, "topic", "first", gone, stays)
	gone.cancel()
	if err := receive(e, "Receive to return", gone.result); err != nil {
		e.Errorf("Receive returned %v after its context had ended, want nil", err)
	}
	deliver(e, node, "topic", "second", stays)
	if gone.has("second") {
		e.Error("fn was called after Receive had returned")
	}
}

func messagesSevered(e *env[coord.Messages]) {
	node, other := e.connect(), e.connect()
	own, far := receiveMessages(e, node, "topic"), receiveMessages(e, other, "topic")
	deliver(e, other, "topic", "before", own, far)
	for n := range 2 {
		e.Sever(e.T, node)
		deliver(e, other, "topic", fmt.Sprint("from the other ", n), own, far)
		deliver(e, node, "topic", fmt.Sprint("from the severed ", n), own, far)
	}
}
