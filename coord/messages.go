package coord

import (
	"context"
	"fmt"
)

// MaxMessage is the largest size of a topic and a message together, in bytes. In base64 they fit into a notification of
// PostgreSQL.
const MaxMessage = 4096

// Messages carries small messages among the nodes of a cluster. Their content is private to the sender and the receivers.
// A message may be lost, doubled, late, or arrive after one that was sent later. Equal messages may become one.
type Messages interface {
	// Send passes a copy of the message on to all receivers of the topic, also to receivers of this node. A message comes
	// back to its own node by the way it takes to the others. So a node that receives its own message knows that
	// it was connected after it sent it. Send does not wait. It returns an error if the node was closed, and if topic
	// and message are longer than [MaxMessage] (see [CheckMessage]).
	Send(topic string, message []byte) error

	// Receive calls fn with the messages of the topic, one call at a time, until ctx ends, and then returns nil. fn may
	// keep a message, and must not change it. fn is called with nil each time the node begins to receive messages of
	// the topic: at first, and when messages may have been lost. An empty message is not nil. Receive returns an error
	// if the node is closed.
	Receive(ctx context.Context, topic string, fn func(message []byte)) error
}

// CheckMessage returns an error if a topic and a message are longer than [MaxMessage].
func CheckMessage(topic string, message []byte) error {
	if n := len(topic) + len(message); n > MaxMessage {
		return fmt.Errorf("a topic and a message of %d bytes: they may have %d together", n, MaxMessage)
	}
	return nil
}
