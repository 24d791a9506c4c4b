package cli

import (
	"context"
	"errors"
	"time"

	"connectrpc.com/connect"
)

// streams shows a stream of a node, and opens a new one when the node ends it, as nodes do after a
// while.
type streams[Res any] struct {
	node waiter // knows how long the node may be away
	open func(ctx context.Context) (*connect.ServerStreamForClient[Res], error)
	show func(*Res) (complete bool, err error) // reports whether nothing follows
}

// showError is an error of showing streamed data, not of the node.
type showError struct{ error }

func (s *streams[Res]) run(ctx context.Context) error {
	for {
		complete, err := s.one(ctx)
		var shown showError
		switch {
		case errors.As(err, &shown):
			return shown.error
		case err == nil && complete:
			return nil
		case err == nil:
			continue
		case ctx.Err() != nil || !s.mayComeBack(err):
			return s.node.client.explain(err)
		}
		if err := pause(ctx, retryAfter); err != nil {
			return err
		}
	}
}

// mayComeBack reports whether a node may go on where a stream broke off.
func (s *streams[Res]) mayComeBack(err error) bool {
	if !connect.IsWireError(err) && !isRefused(err) && !s.node.heard.IsZero() { // broken off amid a stream
		return time.Since(s.node.heard) < pollFor+patience
	}
	return s.node.worthAnother(err)
}

// one shows one stream. It reports whether nothing follows it.
func (s *streams[Res]) one(ctx context.Context) (complete bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	silence := time.AfterFunc(pollFor+pollGrace, cancel) // showing may take as long as it likes
	defer silence.Stop()
	stream, err := s.open(ctx)
	if err != nil {
		return false, err
	}
	defer stream.Close()
	for stream.Receive() {
		silence.Stop()
		if complete, err = s.show(stream.Msg()); err != nil {
			return false, showError{err}
		}
		s.node.heard = time.Now()
		silence.Reset(pollFor + pollGrace)
	}
	return complete, stream.Err()
}
