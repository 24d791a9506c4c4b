package wire

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// Stream is the host's end of the one stream to a handler process. Send and CloseSend are
// called by one goroutine, Recv by another.
type Stream interface {
	// Send sends a frame. With an error nothing of it has arrived, unless that wraps
	// [ErrMaybeSent].
	Send(*ToHandler) error
	Recv() (*FromHandler, error) // io.EOF at the end
	CloseSend() error
}

// Lines is the stream of a handler without gRPC: each frame is a JSON object in a line of
// its own, as protobuf's JSON mapping has it with the names of the fields in the proto
// file. To the handler there is one message in each line, so that a simple program need
// not take lists apart.
type Lines struct {
	in   *bufio.Reader
	out  io.WriteCloser
	most int
	buf  bytes.Buffer
}

var _ Stream = (*Lines)(nil)

// Errors that callers match with [errors.Is].
var (
	// ErrLine wraps the errors of lines that are no frames.
	ErrLine = errors.New("a line is no frame")
	// ErrLongLine is an [ErrLine] for lines longer than a frame may be.
	ErrLongLine = fmt.Errorf("%w: it is too long", ErrLine)
	// ErrMaybeSent wraps the errors of a Send of which a part may have arrived.
	ErrMaybeSent = errors.New("a part of it may have been sent")
)

// NewLines returns the stream that reads from in and writes to out. A line that is read
// may have most bytes.
func NewLines(in *bufio.Reader, out io.WriteCloser, most int) *Lines {
	return &Lines{in: in, out: out, most: most}
}

// Send writes the messages of a frame, in one write.
func (l *Lines) Send(frame *ToHandler) error {
	l.buf.Reset()
	one := func(f *ToHandler) error {
		b, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(f)
		if err != nil {
			return err
		}
		if err := json.Compact(&l.buf, b); err != nil { // protojson adds spaces by chance
			return err
		}
		return l.buf.WriteByte('\n')
	}
	var err error
	if frame.GetWelcome() != nil {
		err = errors.Join(err, one(&ToHandler{Welcome: frame.GetWelcome()}))
	}
	for _, r := range frame.GetRuns() {
		err = errors.Join(err, one(&ToHandler{Runs: []*Run{r}}))
	}
	for _, c := range frame.GetCancels() {
		err = errors.Join(err, one(&ToHandler{Cancels: []*Cancel{c}}))
	}
	if frame.GetPing() != 0 {
		err = errors.Join(err, one(&ToHandler{Ping: frame.GetPing()}))
	}
	if frame.GetDrain() != nil {
		err = errors.Join(err, one(&ToHandler{Drain: frame.GetDrain()}))
	}
	if err != nil {
		return err
	}
	if _, err := l.out.Write(l.buf.Bytes()); err != nil {
		return fmt.Errorf("%w: %w", ErrMaybeSent, err)
	}
	return nil
}

// Recv reads the next line that is not empty.
func (l *Lines) Recv() (*FromHandler, error) {
	for {
		line, err := l.line()
		if line = bytes.TrimSpace(line); len(line) > 0 {
			return parse(line)
		}
		if err != nil {
			return nil, err
		}
	}
}

// line reads up to the next newline or the end.
func (l *Lines) line() (line []byte, err error) {
	for {
		part, err := l.in.ReadSlice('\n')
		if len(line)+len(part) > l.most {
			return nil, fmt.Errorf("%w: more than %d bytes", ErrLongLine, l.most)
		}
		line = append(line, part...)
		if err != bufio.ErrBufferFull {
			return line, err
		}
	}
}

func parse(line []byte) (*FromHandler, error) {
	f := new(FromHandler)
	err := protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(line, proto.Message(f))
	if err != nil {
		return nil, fmt.Errorf("%w: %.200q: %w", ErrLine, line, err)
	}
	return f, nil
}

// CloseSend closes the handler's input.
func (l *Lines) CloseSend() error { return l.out.Close() }
