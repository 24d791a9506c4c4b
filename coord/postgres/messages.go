package postgres

import (
	"context"
	"encoding/base64"
	"errors"
	"strings"

	"github.com/taskengine/taskengine/coord"
)

// ErrNoListen is returned by [Coord.Messages] if no connection can LISTEN.
var ErrNoListen = errors.New("messages between nodes need a connection to the database that can LISTEN, and there is none: " +
	"give a URL of the database itself instead of a pool of connections")

// maxMessages is how many messages may wait to be sent before the newest are dropped.
const maxMessages = 1024

// messages implements [coord.Messages].
type messages struct{ c *Coord }

// Messages returns the messages of the cluster, which are notifications. All of them come from the database, also messages
// to receivers of this process. They are sent by one statement a few milliseconds later, together with
// hints, and dropped if the database cannot be used. It returns [ErrNoListen] with [ListenOff].
func (c *Coord) Messages() (coord.Messages, error) {
	if c.listen == nil {
		return nil, ErrNoListen
	}
	return messages{c}, nil
}

// Send implements [coord.Messages].
func (m messages) Send(topic string, message []byte) error {
	if err := coord.CheckMessage(topic, message); err != nil {
		return err
	}
	payload := packMessage(topic, message)
	c := m.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.start(); err != nil {
		return err
	}
	if len(c.unsent) < maxMessages {
		c.unsent = append(c.unsent, payload)
	}
	c.outboxFilled.Set()
	return nil
}

// Receive implements [coord.Messages].
func (m messages) Receive(ctx context.Context, topic string, fn func(message []byte)) error {
	c := m.c
	c.mu.Lock()
	err := c.start()
	if err != nil {
		c.mu.Unlock()
		return err
	}
	box := c.received.Open(topic, c.listening)
	c.mu.Unlock()
	return box.Receive(ctx, c.closed, fn)
}

// packMessage returns the payload of a message. By the size that [coord.MaxMessage] allows, it is shorter than maxPayload.
func packMessage(topic string, message []byte) string {
	return kindMessage + ":" + base64.RawStdEncoding.EncodeToString([]byte(topic)) + ":" + base64.RawStdEncoding.EncodeToString(message)
}

// unpackMessage decodes a payload of packMessage without its kind.
func unpackMessage(text string) (topic string, message []byte, err error) {
	first, second, _ := strings.Cut(text, ":")
	t, err := base64.RawStdEncoding.DecodeString(first)
	if err != nil {
		return "", nil, err
	}
	message, err = base64.RawStdEncoding.DecodeString(second)
	return string(t), message, err
}
