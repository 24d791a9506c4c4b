package service

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Action is the kind of a step.
type Action string

// The kinds of steps.
const (
	Write  Action = "write"  // a file, in a folder that is made
	Keep   Action = "keep"   // a file that exists
	Remove Action = "remove" // a file
	Run    Action = "run"    // a command
)

// Step is one change of a machine.
type Step struct {
	Action  Action
	What    string // the path of the file in the machine, or the command
	Content string // of the file that is written

	do func() error
}

// Do makes the change.
func (s Step) Do() error {
	if s.do == nil {
		return nil
	}
	if err := s.do(); err != nil {
		return fmt.Errorf("%s %s: %w", s.Action, s.What, err)
	}
	return nil
}

// write returns the step that writes a file.
func (m *Machine) write(name, text string) Step {
	return Step{Action: Write, What: name, Content: text, do: func() error {
		path := m.path(name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		return os.WriteFile(path, []byte(text), 0o644)
	}}
}

// writeOnce returns the step that writes a file unless it exists.
func (m *Machine) writeOnce(name, text string) Step {
	if m.has(name) {
		return Step{Action: Keep, What: name}
	}
	return m.write(name, text)
}

// remove returns the step that removes a file.
func (m *Machine) remove(name string) Step {
	return Step{Action: Remove, What: name, do: func() error {
		if err := os.Remove(m.path(name)); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}}
}

// run returns the step that runs a command.
func (m *Machine) run(words ...string) Step {
	return Step{Action: Run, What: strings.Join(words, " "), do: func() error {
		if out, err := m.Run(words[0], words[1:]...); err != nil {
			return fmt.Errorf("%w: %s", err, strings.TrimSpace(out))
		}
		return nil
	}}
}

// aState matches a state as systemctl prints it. A message about an error begins with a capital letter.
var aState = regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`)

// state returns the state that a command prints, or "unknown". Its exit code does not matter.
func (m *Machine) state(command string, args ...string) string {
	out, _ := m.Run(command, args...)
	if words := strings.Fields(out); len(words) > 0 && aState.MatchString(words[0]) {
		return words[0]
	}
	return "unknown"
}
