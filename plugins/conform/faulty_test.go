package conform_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/taskengine/taskengine/plugins/internal/wire"
)

// In the environment of a faulty handler.
const (
	transport = "CONFORM_TEST_TRANSPORT" // grpc or json
	elsewhere = "CONFORM_TEST_ELSEWHERE" // a directory
)

// faulty is a handler without an SDK that has one fault: "none" is one without.
type faulty struct {
	fault string
	seen  *seen
}

// seen is what a handler remembers of its session. It belongs to the goroutine that serves
// the stream.
type seen struct {
	batched  int                  // tasks of the type batch
	begins   map[uint64]time.Time // when runs of the type hang begin
	features []string             // of the host
	documents
}

// link is the handler's end of the stream.
type link interface {
	// recv returns the next frame, and whether it has an unknown field.
	recv() (f *wire.ToHandler, strange bool, err error)
	send(*wire.FromHandler) error
}

func (f faulty) main() {
	if os.Getenv(wire.CookieKey) == "" {
		switch f.fault {
		case "takes a person for a host":
			time.Sleep(time.Hour)
		case "greets a person":
			os.Exit(0)
		case "says nothing to a person":
			os.Exit(1)
		case "leaves a child to a person":
			fmt.Println("taskengine starts this program")
			spawn(exec.Command("/bin/sleep", "3600"))
			os.Exit(1)
		}
		fmt.Fprintln(os.Stderr, "taskengine starts this program")
		os.Exit(1)
	}
	switch f.fault {
	case "prints first":
		fmt.Println("starting...")
	case "says nothing":
		time.Sleep(time.Hour)
	case "dies at once":
		fmt.Fprintln(os.Stderr, "cannot find my configuration")
		os.Exit(3)
	case "leaves a child":
		spawn(exec.Command("/bin/sleep", "60"))
	case "leaves a dead child":
		spawn(exec.Command("/bin/true"))
	case "leaves a daemon":
		f.daemon()
	case "leaves its process group":
		group, err := syscall.Getpgid(os.Getppid())
		if err == nil {
			err = syscall.Setpgid(0, group)
		}
		if err != nil {
			panic(err)
		}
		time.Sleep(time.Hour)
	}
	version := 1
	if f.fault == "handshake of version 2" {
		version = 2
	}
	if os.Getenv(transport) == "json" {
		fmt.Printf("1|%d|stdio||json|\n", version)
		os.Exit(f.serve(&linesLink{in: bufio.NewReader(os.Stdin)}))
	}
	dir := os.Getenv("PLUGIN_UNIX_SOCKET_DIR")
	if f.fault == "socket elsewhere" {
		dir = os.Getenv(elsewhere)
	}
	path := filepath.Join(dir, fmt.Sprint(os.Getpid()))
	listener, err := net.Listen("unix", path)
	if err != nil {
		panic(err)
	}
	server := grpc.NewServer(grpc.MaxRecvMsgSize(64 << 20))
	wire.RegisterHandlerServer(server, work{faulty: f})
	fmt.Printf("1|%d|unix|%s|grpc|\n", version, path)
	if f.fault == "chatters" {
		fmt.Println("ready, I think")
	}
	_ = server.Serve(listener)
}

// spawn starts a program and does not wait for it.
func spawn(c *exec.Cmd) {
	c.Stdout = os.Stdout
	if err := c.Start(); err != nil {
		panic(err)
	}
}

// daemon starts a program that leaves the process group, and notes its id.
func (f faulty) daemon() {
	c := exec.Command("/bin/sleep", "60")
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	spawn(c)
	file := filepath.Join(os.Getenv(elsewhere), strconv.Itoa(c.Process.Pid))
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		panic(err)
	}
}

type work struct {
	wire.UnimplementedHandlerServer
	faulty
}

func (w work) Work(stream grpc.BidiStreamingServer[wire.ToHandler, wire.FromHandler]) error {
	os.Exit(w.serve(streamLink{stream}))
	return nil
}

type streamLink struct {
	stream grpc.BidiStreamingServer[wire.ToHandler, wire.FromHandler]
}

func (l streamLink) recv() (*wire.ToHandler, bool, error) {
	f, err := l.stream.Recv()
	return f, len(f.ProtoReflect().GetUnknown()) > 0, err
}

func (l streamLink) send(f *wire.FromHandler) error { return l.stream.Send(f) }

type linesLink struct{ in *bufio.Reader }

func (l *linesLink) recv() (*wire.ToHandler, bool, error) {
	line, err := l.in.ReadBytes('\n')
	if err != nil {
		return nil, false, err
	}
	f := new(wire.ToHandler)
	err = protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(line, f)
	return f, bytes.Contains(line, []byte(`"later"`)), err
}

func (l *linesLink) send(f *wire.FromHandler) error {
	b, err := protojson.Marshal(f)
	if err == nil {
		_, err = os.Stdout.Write(append(b, '\n'))
	}
	return err
}

// serve serves the stream and returns the exit status.
func (f faulty) serve(l link) int {
	w, _, err := l.recv()
	if err != nil {
		return 1
	}
	first := f.greeting(w.GetWelcome())
	if f.fault == "says something before hello" {
		_ = l.send(&wire.FromHandler{Logs: []*wire.LogLine{{Message: "good morning"}}})
	}
	if err := l.send(first); err != nil {
		return 1
	}
	f.seen = &seen{begins: make(map[uint64]time.Time), documents: documents{asked: make(map[uint64]*documentTask), held: make(map[uint64]*wire.Finish)}}
	f.seen.features = w.GetWelcome().GetFeatures()
	f.seen.unsupported = !slices.Contains(f.seen.features, "documents")
	afterRun := false
	for {
		frame, strange, err := l.recv()
		if err != nil {
			break
		}
		if f.fault == "dies of unknown fields" && strange {
			return 9
		}
		if f.fault == "misses pings that come with runs" && (afterRun || len(frame.GetRuns()) > 0) {
			frame.Ping = 0
		}
		afterRun = len(frame.GetRuns()) > 0
		for _, answer := range f.answers(frame) {
			_ = l.send(answer)
		}
		if f.fault == "stops reading" && afterRun {
			time.Sleep(time.Hour)
		}
	}
	switch f.fault {
	case "does not exit":
		time.Sleep(time.Hour)
	case "exits with status 3":
		return 3
	}
	return 0
}

// greeting returns the first frame.
func (f faulty) greeting(w *wire.Welcome) *wire.FromHandler {
	slots := w.GetSlots()
	if slots == 0 && f.fault != "no slots of its own" {
		slots = 2
	}
	hello := &wire.Hello{Protocol: 1, Sdk: "none", Types: []string{"echo"}, Slots: slots}
	credits := slots
	switch f.fault {
	case "protocol 2":
		hello.Protocol = 2
	case "no types":
		hello.Types = nil
	case "nonsense":
		hello.Types = strings.Fields("echo json describe error throw doubt unencodable snooze again rerun ended wait hang log print progress checkpoint keep await flow children family signals check documents after fan batch big exit")
	case "is slow":
		hello.Types = strings.Fields("echo describe hang batch")
	case "no fault with documents", anyVersion, noZero, doubles, noTimes, ignoresError, ignoresTerms:
		hello.Types = strings.Fields("echo describe documents")
	case forgetsAfter, forgetsAny, alwaysAfter:
		hello.Types = strings.Fields("echo describe after")
	case "progress comes late":
		hello.Types = strings.Fields("echo describe progress")
	case "too many slots":
		hello.Slots = w.GetSlots() + 10
	case "no credits":
		credits = 0
	case "more credits than slots":
		credits++
	}
	return &wire.FromHandler{Hello: hello, Credits: credits}
}

// answers returns what to send for a frame.
func (f faulty) answers(frame *wire.ToHandler) (out []*wire.FromHandler) {
	if n := frame.GetPing(); n != 0 && f.fault != "ignores pings" {
		out = append(out, &wire.FromHandler{Pong: n})
	}
	if len(frame.GetCancels()) > 0 && f.fault == "dies of a strange cancel" {
		os.Exit(9)
	}
	if f.fault == "is slow" {
		return append(out, f.slow(frame)...)
	}
	runs := frame.GetRuns()
	switch {
	case f.fault == "takes one run of a frame":
		runs = runs[:min(1, len(runs))]
	case f.fault == "drops runs beyond its slots" && len(runs) > 3:
		runs = runs[:3]
	case f.fault == "drops all when drained" && frame.GetDrain() != nil:
		runs = nil
	}
	for _, r := range runs {
		if r.GetType() == "documents" && f.usesDocuments() {
			out = append(out, f.seen.begin(f.fault, r))
			continue
		}
		if r.GetType() == "after" && f.fault != "nonsense" {
			out = append(out, f.after(r))
			continue
		}
		out = append(out, f.answer(r)...)
	}
	for _, d := range frame.GetDocuments() {
		out = append(out, f.seen.read(f.fault, d))
	}
	return out
}

// slow answers as a conformance program does on a machine that is busy: a task begins only
// after a while, and the first batch comes in parts.
func (f faulty) slow(frame *wire.ToHandler) (out []*wire.FromHandler) {
	finish := func(fin *wire.Finish) {
		out = append(out, &wire.FromHandler{Finishes: []*wire.Finish{fin}, Credits: 1})
	}
	for _, r := range frame.GetRuns() {
		fin := &wire.Finish{RunId: r.GetRunId(), Outcome: &wire.Finish_Result{Result: r.GetPayload()}}
		switch {
		case r.GetType() == "hang":
			f.seen.begins[r.GetRunId()] = time.Now().Add(500 * time.Millisecond)
			continue
		case r.GetType() == "batch":
			f.seen.batched++
			fin.Outcome = &wire.Finish_Result{Result: []byte{"2213"[min(3, f.seen.batched-1)]}}
		}
		if string(r.GetPayload()) == "fail" {
			fin.Outcome = &wire.Finish_Error{Error: &wire.Error{Message: "asked to"}}
		}
		finish(fin)
	}
	for _, c := range frame.GetCancels() {
		if begin, ok := f.seen.begins[c.GetRunId()]; ok && time.Now().Before(begin) {
			finish(&wire.Finish{RunId: c.GetRunId(), Outcome: &wire.Finish_Error{Error: &wire.Error{Class: "cancelled"}}})
			delete(f.seen.begins, c.GetRunId())
		}
	}
	return out
}

func (f faulty) answer(r *wire.Run) []*wire.FromHandler {
	fin := &wire.Finish{RunId: r.GetRunId(), Outcome: &wire.Finish_Result{Result: r.GetPayload()}}
	answer := &wire.FromHandler{Finishes: []*wire.Finish{fin}, Credits: 1}
	known := r.GetType() == "echo"
	if !known {
		fin.Outcome = &wire.Finish_Refused{Refused: &wire.Refused{Message: "what is that?"}}
	}
	switch f.fault {
	case "silent about unknown types":
		if !known {
			return []*wire.FromHandler{{Credits: 1}}
		}
	case "nonsense":
		if !strings.Contains(r.GetType(), "-") {
			fin.Outcome = &wire.Finish_Result{Result: []byte("nonsense")}
		}
	case "serves unknown types":
		fin.Outcome = &wire.Finish_Result{}
	case "no finish":
		if known {
			return []*wire.FromHandler{{Credits: 1}}
		}
	case "two finishes":
		return []*wire.FromHandler{answer, {Finishes: []*wire.Finish{fin}}}
	case "another finish later":
		if r.GetRunId() == 4 {
			again := &wire.Finish{RunId: 2, Outcome: &wire.Finish_Result{}}
			return []*wire.FromHandler{answer, {Finishes: []*wire.Finish{again}}}
		}
	case "progress comes late":
		if r.GetType() == "progress" {
			fin.Outcome = &wire.Finish_Result{}
			late := &wire.Progress{RunId: r.GetRunId(), Done: 3, Total: 7, Message: "pägés"}
			return []*wire.FromHandler{answer, {Progress: []*wire.Progress{late}}}
		}
	case "finish without outcome":
		if known {
			fin.Outcome = nil
		}
	case "refuses":
		fin.Outcome = &wire.Finish_Refused{Refused: &wire.Refused{Message: "I am tired"}}
	case "credits run out":
		answer.Credits = 0
	case "two credits each":
		answer.Credits = 2
	case "run ids of 32 bits":
		fin.RunId = uint64(uint32(fin.RunId))
	case "dies of large payloads":
		if len(r.GetPayload()) > 1<<20 {
			os.Exit(9)
		}
	case "a second hello":
		answer.Hello = &wire.Hello{Protocol: 1, Types: []string{"echo"}, Slots: 1}
	case "a pong too many":
		answer.Pong = 77
	case "garbage in lines":
		_, _ = io.WriteString(os.Stdout, "oops, a debugging line\n{\"finishes\": 7}\n")
	}
	return []*wire.FromHandler{answer}
}
