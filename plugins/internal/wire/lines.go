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

// Stream is the host's end of the stream to a handler process. One goroutine calls Send and CloseSend, another calls
// Recv.
type Stream interface {
	// Send sends a frame. After an error that does not wrap [ErrMaybeSent], no part of the frame has arrived.
	Send(*ToHandler) error
	Recv() (*FromHandler, error) // io.EOF at the end
	CloseSend() error
}

// Lines is the stream to a handler without gRPC. Each frame is one line with a JSON object, in the JSON mapping of
// protobuf with the field names of the proto file. A line to the handler has one message, so that simple programs need
// not handle lists.
type Lines struct {
	in   *bufio.Reader
	out  io.WriteCloser
	most int
	buf  bytes.Buffer
}

var _ Stream = (*Lines)(nil)

// Errors that callers match with [errors.Is].
var (
	// ErrLine wraps the errors of lines that are not frames.
	ErrLine = errors.New("a line is no frame")
	// ErrLongLine wraps [ErrLine]. It is the error of lines that are too long.
	ErrLongLine = fmt.Errorf("%w: it is too long", ErrLine)
	// ErrMaybeSent wraps errors of Send if a part of the frame may have arrived.
	ErrMaybeSent = errors.New("a part of it may have been sent")
)

// NewLines returns a stream that reads from in and writes to out. A line from in may have most bytes.
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
		if err := json.Compact(&l.buf, b); err != nil { // protojson adds spaces at random
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
	for _, k := range frame.GetStored() {
		err = errors.Join(err, one(&ToHandler{Stored: []*Stored{k}}))
	}
	for _, k := range frame.GetChecked() {
		err = errors.Join(err, one(&ToHandler{Checked: []*Checked{k}}))
	}
	for _, d := range frame.GetDocuments() {
		err = errors.Join(err, one(&ToHandler{Documents: []*DocumentRead{d}}))
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

// CloseSend closes the standard input of the handler.
func (l *Lines) CloseSend() error { return l.out.Close() }
