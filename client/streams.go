package client

import (
	"context"
	"errors"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/taskengine/taskengine/internal/wakeup"
)

// streamPoll is how long the client asks a stream to last, and streamGrace how much longer a stream may be silent.
const (
	streamPoll  = 30 * time.Second
	streamGrace = 15 * time.Second
)

var (
	errStopped  = errors.New("the loop has ended")
	errComplete = errors.New("nothing follows")
)

// badResponse is a response that cannot be read.
type badResponse struct{ error }

// cursored is a request for what comes after a cursor.
type cursored interface {
	proto.Message
	GetCursor() string
}

// follow passes on what streams of a method have, one stream after the other. A node that is gone is replaced by another one, which goes on
// at the cursor of req. pass moves this cursor, and returns errStopped when yield returns false, or errComplete when nothing follows.
func follow[Req cursored, Res, T any, PRes message[Res]](ctx context.Context, c *Client, procedure string, req Req, pass func(Req, PRes, func(T, error) bool) error, yield func(T, error) bool) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.background, cancel)()
	var none T
	for pause := firstPause; ; {
		before := req.GetCursor()
		err := followOnce(ctx, c, procedure, req, func(res PRes) error { return pass(req, res, yield) })
		switch {
		case errors.Is(err, errStopped), errors.Is(err, errComplete):
			return
		case c.background.Err() != nil:
			yield(none, ErrClosed)
			return
		case ctx.Err() != nil:
			yield(none, context.Cause(ctx))
			return
		case err == nil:
			continue
		case !mayRepeat(err):
			yield(none, err)
			return
		}
		if pause = min(2*pause, mostPause); req.GetCursor() != before {
			pause = firstPause
		}
		_ = wakeup.Sleep(ctx, jittered(pause))
	}
}

// followOnce passes on the responses of one stream.
func followOnce[Res any, PRes message[Res]](ctx context.Context, c *Client, procedure string, req proto.Message, pass func(PRes) error) error {
	n, err := c.nodes.pick(ctx, c.nodes.patienceOf(ctx, 0), false)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	silence := time.AfterFunc(streamPoll+streamGrace, cancel)
	defer silence.Stop()
	s, err := n.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, procedure)
	if err == nil {
		if err = s.SendMsg(req); err == nil {
			err = s.CloseSend()
		}
	}
	for err == nil {
		res := PRes(new(Res))
		if err = s.RecvMsg(res); err == nil {
			silence.Stop()
			err = pass(res)
			silence.Reset(streamPoll + streamGrace)
		}
	}
	var bad badResponse
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case errors.Is(err, errStopped), errors.Is(err, errComplete), errors.As(err, &bad):
		return err
	}
	if code := status.Code(err); code == codes.Unavailable || code == codes.Canceled {
		c.nodes.leave(n)
		err = status.Error(codes.Unavailable, err.Error()) // the cursor is kept
	}
	return errorOf(n.address, err, nil)
}
