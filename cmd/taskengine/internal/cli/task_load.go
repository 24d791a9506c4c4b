package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/schollz/progressbar/v3"

	"github.com/taskengine/taskengine/cmd/taskengine/internal/exit"
	taskenginev1 "github.com/taskengine/taskengine/server/proto/taskengine/v1"
)

const (
	loadBatch   = 500      // tasks in one request
	loadBytes   = 4 << 20  // of lines in one request, give or take one line
	loadAhead   = 4        // batches that are read while one is being sent
	loadLine    = 64 << 20 // bytes of one line; a longer one is a bad line
	loadMistake = 100      // bad lines after which loading ends: it is probably the wrong file
)

// line is one line of a file of tasks.
type line struct {
	ID            string            `json:"id"`
	Type          string            `json:"type"`
	Data          json.RawMessage   `json:"data"`
	PayloadBase64 *[]byte           `json:"payload_base64"`
	Key           string            `json:"key"`
	OrderingKey   string            `json:"ordering_key"`
	Priority      *uint32           `json:"priority"`
	At            *instant          `json:"at"`
	In            *duration         `json:"in"`
	ExpiresAt     *instant          `json:"expires_at"`
	Headers       map[string]string `json:"headers"`
	After         []string          `json:"after"`
	AfterAny      bool              `json:"after_any"`
}

// parseLine reads a line; typ is the type if the line names none.
func parseLine(text []byte, typ string) (*taskenginev1.NewTask, error) {
	if bytes.IndexByte(text, 0) >= 0 {
		return nil, errors.New("no task: it has the byte zero, as text in UTF-16 does; save the file as UTF-8")
	}
	if i := invalidUTF8(text); i >= 0 {
		return nil, fmt.Errorf("no task: it is not UTF-8, from byte %d on; payload_base64 takes any bytes", i+1)
	}
	var l line
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&l); err != nil {
		return nil, fmt.Errorf("no task: %w", mistakeIn(err))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("no task: something follows the JSON object")
	}
	if l.hasHalves(text) {
		return nil, errors.New(`no task: a string has half of a character, such as \ud800, so that different keys would become one; write whole characters`)
	}
	t := &taskenginev1.NewTask{
		Id: l.ID, Type: l.Type, Key: l.Key, OrderingKey: l.OrderingKey, Priority: l.Priority,
		At: l.At.message(), In: l.In.message(), ExpiresAt: l.ExpiresAt.message(), Headers: l.Headers,
		After: l.After, AfterAny: l.AfterAny,
	}
	switch {
	case l.Data != nil && l.PayloadBase64 != nil:
		return nil, errors.New("data and payload_base64 exclude each other")
	case l.PayloadBase64 != nil:
		t.Input = &taskenginev1.NewTask_Payload{Payload: *l.PayloadBase64}
	case l.Data != nil:
		t.Input = &taskenginev1.NewTask_Payload{Payload: l.Data}
	}
	if t.Type == "" {
		t.Type = typ
	}
	return t, nil
}

// invalidUTF8 returns where text is not UTF-8, and -1 if it is.
func invalidUTF8(text []byte) int {
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRune(text[i:])
		if r == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return -1
}

// Halves of a character in JSON. Of one without its other half the decoder makes U+FFFD.
var (
	twoHalves = regexp.MustCompile(`(?i)\\ud[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2}`)
	oneHalf   = regexp.MustCompile(`(?i)\\ud[89a-f][0-9a-f]{2}`)
)

// hasHalves reports whether the decoder has replaced half of a surrogate pair in the line, apart from
// the payload.
func (l *line) hasHalves(text []byte) bool {
	texts := []string{l.ID, l.Type, l.Key, l.OrderingKey}
	for k, v := range l.Headers {
		texts = append(texts, k, v)
	}
	replaced := slices.ContainsFunc(texts, func(s string) bool { return strings.ContainsRune(s, utf8.RuneError) })
	return replaced && oneHalf.Match(twoHalves.ReplaceAll(text, nil))
}

// mistakeIn turns an error of the decoder into one that uses the field names of the file.
func mistakeIn(err error) error {
	var wrong *json.UnmarshalTypeError
	var corrupt base64.CorruptInputError
	switch {
	case errors.As(err, &corrupt):
		return fmt.Errorf("payload_base64 is not base64: %w", err)
	case !errors.As(err, &wrong):
		return errors.New(strings.TrimPrefix(err.Error(), "json: "))
	}
	is := "a " + wrong.Value
	if n, ok := strings.CutPrefix(wrong.Value, "number "); ok {
		is = n
	} else if strings.HasPrefix(wrong.Value, "array") || strings.HasPrefix(wrong.Value, "object") {
		is = "an " + wrong.Value
	}
	field, _, _ := strings.Cut(wrong.Field, ".")
	want := "text"
	switch field {
	case "":
		field, want = "it", `an object, such as {"type": "mail"}`
	case "priority":
		want = "a number from 0 (sooner) to 9 (later)"
	case "headers":
		want = "an object with strings as values"
	case "payload_base64":
		want = "bytes in base64"
	case "in":
		want = `a duration, such as "90s"`
	case "at", "expires_at":
		want = `a time, such as "2026-12-24T18:00:00Z"`
	}
	return fmt.Errorf("%s is %s; want %s", field, is, want)
}

// numbered is a task and the number of its line.
type numbered struct {
	line int
	task *taskenginev1.NewTask
}

// batch has the tasks of one request, and the bad lines among them.
type batch struct {
	tasks []numbered
	bad   []badLine
	bytes int64 // of the file
}

type badLine struct {
	line int
	err  error
}

// loader adds the tasks of a file. One goroutine reads ahead, and one sends, a batch at
// a time, so that tasks are added in the order of their lines.
type loader struct {
	app    *app
	client *client
	name   string
	typ    string
	// longest is how many bytes a line may have.
	longest int
	bar     *progressbar.ProgressBar
	count   loadedJSON
	warned  map[string]bool // the types with a printed warning
}

// load adds the tasks of a file, or of standard input if it is "-".
func (a *app) load(ctx context.Context, c *client, name, typ string) error {
	l := &loader{app: a, client: c, name: name, typ: typ, longest: loadLine, warned: make(map[string]bool)}
	input, size := a.stdin, int64(-1)
	if name == "-" {
		l.name = "(standard input)"
	} else {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
			size = info.Size()
		}
		input = f
	}
	l.bar = a.progress(size)
	err := l.run(ctx, input)
	if err != nil {
		return fmt.Errorf("%w (so far %d added, %d there already)", err, l.count.Added, l.count.Existing)
	}
	if err := a.showLoaded(l.count); err != nil {
		return err
	}
	if l.count.Bad > 0 {
		return exit.Errorf(exit.Failure, "invalid lines that were left out: %d", l.count.Bad)
	}
	return nil
}

func (a *app) showLoaded(count loadedJSON) error {
	if a.json() {
		return a.printJSON(count)
	}
	replaced := ""
	if count.Replaced > 0 {
		replaced = fmt.Sprintf(", %d replaced", count.Replaced)
	}
	_, err := fmt.Fprintf(a.stdout, "%d added, %d there already%s, %d bad\n", count.Added, count.Existing, replaced, count.Bad)
	return err
}

// progress shows on a terminal how far a file is read.
func (a *app) progress(size int64) *progressbar.ProgressBar {
	return progressbar.NewOptions64(size,
		progressbar.OptionSetWriter(a.stderr), progressbar.OptionSetVisibility(a.errTTY),
		progressbar.OptionShowBytes(true), progressbar.OptionSetDescription("adding tasks"),
		progressbar.OptionClearOnFinish(), progressbar.OptionUseANSICodes(false))
}

func (l *loader) run(ctx context.Context, input io.Reader) error {
	ctx, cancel := context.WithCancel(ctx)
	batches := make(chan batch, loadAhead)
	readErr := make(chan error, 1)
	go func() {
		defer close(batches)
		readErr <- l.read(ctx, input, batches)
	}()
	err := l.send(ctx, batches)
	l.bar.Finish()
	cancel()
	if err != nil {
		return err // the reader may be stuck in a read of standard input
	}
	return <-readErr
}

// read cuts the input into batches.
func (l *loader) read(ctx context.Context, input io.Reader, out chan<- batch) error {
	r := bufio.NewReaderSize(input, 64<<10)
	var b batch
	flush := func() error {
		select {
		case out <- b:
			b = batch{}
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	for n := 1; ; n++ {
		text, size, readErr := readLine(r, l.longest)
		b.bytes += size
		if n == 1 {
			text = bytes.TrimPrefix(text, []byte("\ufeff")) // a byte order mark, which some editors write
		}
		switch {
		case readErr != nil && !errors.Is(readErr, io.EOF):
		case size > int64(l.longest):
			b.bad = append(b.bad, badLine{n, fmt.Errorf("no task: the line has %d bytes, of %d allowed", size, l.longest)})
		case len(bytes.TrimSpace(text)) > 0:
			l.take(&b, n, text)
		}
		if readErr != nil || len(b.tasks)+len(b.bad) >= loadBatch || b.bytes >= loadBytes {
			if err := flush(); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(readErr, io.EOF):
			return nil
		case readErr != nil:
			return fmt.Errorf("%s:%d: %w", l.name, n, readErr)
		}
	}
}

// take adds the task of a line to a batch.
func (l *loader) take(b *batch, n int, text []byte) {
	t, err := parseLine(text, l.typ)
	if err != nil {
		b.bad = append(b.bad, badLine{n, err})
		return
	}
	l.app.name(t)
	b.tasks = append(b.tasks, numbered{n, t})
}

// readLine reads a line of at most longest bytes, its end included. Of a longer one it
// returns how many bytes it has and not its text. The error is io.EOF at the end, where a
// last line may come with it.
func readLine(r *bufio.Reader, longest int) (text []byte, size int64, err error) {
	for {
		part, err := r.ReadSlice('\n')
		if size += int64(len(part)); size <= int64(longest) {
			text = append(text, part...)
		} else {
			text = nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return text, size, err
		}
	}
}

func (l *loader) send(ctx context.Context, batches <-chan batch) error {
	for b := range batches {
		for _, bad := range b.bad {
			if err := l.reject(bad); err != nil {
				return err
			}
		}
		if err := l.submit(ctx, b.tasks); err != nil {
			return err
		}
		if err := l.bar.Add64(b.bytes); err != nil {
			return err
		}
	}
	return nil
}

// countReceipts counts the outcomes of a batch.
func (l *loader) countReceipts(tasks []numbered, receipts []*taskenginev1.Receipt) error {
	for i, r := range receipts {
		if typ := tasks[i].task.GetType(); r.GetWarning() != "" && !l.warned[typ] {
			l.warned[typ] = true
			l.bar.Clear()
			l.app.warnOf(r)
		}
		var refused error
		switch submitOutcome(r) {
		case outcomeCreated:
			l.count.Added++
		case outcomeReplaced:
			l.count.Replaced++
		case outcomeRejected:
			refused = fmt.Errorf("task %s has the key, and its type rejects such requests", clean(r.GetId()))
		case outcomeLate:
			refused = errors.New("its time lies further in the past than max_lateness of its type allows")
		default:
			l.count.Existing++
		}
		if refused == nil {
			continue
		}
		if err := l.reject(badLine{tasks[i].line, refused}); err != nil {
			return err
		}
	}
	return nil
}

// submit adds the tasks of a batch. A node takes all of them or none; one that takes
// none because some are invalid is asked again with each half, until it is known which. So is one
// that has no room for all.
func (l *loader) submit(ctx context.Context, tasks []numbered) error {
	if len(tasks) == 0 {
		return nil
	}
	messages := make([]*taskenginev1.NewTask, len(tasks))
	for i, t := range tasks {
		messages[i] = t.task
	}
	receipts, err := submit(ctx, l.client, messages, true)
	for exit.Code(err) == exit.Backlog && l.client.waited && ctx.Err() == nil { // the file is a source that pauses
		receipts, err = submit(ctx, l.client, messages, true)
	}
	switch {
	case err == nil:
		return l.countReceipts(tasks, receipts)
	case exit.Code(err) == exit.Backlog && len(tasks) > 1: // some of them may find room
	case (exit.Code(err) == exit.Conflict || exit.Code(err) == exit.Late) && len(tasks) == 1: // the type refuses it
		return l.reject(badLine{tasks[0].line, err})
	case exit.Code(err) != exit.Usage:
		return fmt.Errorf("lines %d to %d: %w", tasks[0].line, tasks[len(tasks)-1].line, err)
	case len(tasks) == 1:
		return l.reject(badLine{tasks[0].line, err})
	}
	half := len(tasks) / 2
	if err := l.submit(ctx, tasks[:half]); err != nil {
		return err
	}
	return l.submit(ctx, tasks[half:])
}

// reject reports a bad line. Its error ends the loading.
func (l *loader) reject(b badLine) error {
	l.count.Bad++
	l.bar.Clear()
	l.app.note("%s:%d: %v", l.name, b.line, b.err)
	if l.count.Bad == loadMistake {
		return exit.Errorf(exit.Failure, "line %d is the %dth invalid line, and the rest was not added: correct the file and load it again", b.line, loadMistake)
	}
	return nil
}

type loadedJSON struct {
	Added    int64 `json:"added"`
	Existing int64 `json:"existing"`
	Replaced int64 `json:"replaced,omitempty"`
	Bad      int64 `json:"bad"`
}
