package coord

import (
	"context"
	"fmt"
)

// MaxMessage is how many bytes a topic and a message may have together. A notification of PostgreSQL has room for
// them in base64.
const MaxMessage = 4096

// Messages carries small messages among the nodes of a cluster. Only those that send and receive them know what is in
// them. A message may be lost, doubled, late, or come after one that was sent later. Equal messages may become one.
type Messages interface {
	// Send passes a copy of the message on to all that receive the topic, those of this node included. A message comes
	// back to its own node by the same way as it goes to the others. So a node that receives its own message knows that
	// it was connected when it had sent it. Send does not wait. It returns an error if the node was closed, and if topic
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
