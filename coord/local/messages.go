package local

import (
	"bytes"
	"context"

	"github.com/taskengine/taskengine/coord"
)

var _ coord.Messages = (*Node)(nil)

// Send implements [coord.Messages]. A message reaches every receiver once, and in the order of the calls, unless the
// receiver lags behind by more than a thousand messages: then it loses all of them and gets nil, as [coord.Messages] says.
func (n *Node) Send(topic string, message []byte) error {
	if n.isClosed() {
		return coord.ErrClosed
	}
	if err := coord.CheckMessage(topic, message); err != nil {
		return err
	}
	n.cluster.messages.Deliver(topic, bytes.Clone(message))
	return nil
}

// Receive implements [coord.Messages].
func (n *Node) Receive(ctx context.Context, topic string, fn func(message []byte)) error {
	return n.cluster.messages.Open(topic, true).Receive(ctx, n.closed, fn)
}
