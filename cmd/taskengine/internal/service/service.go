// Package service installs a node as a service of systemd, or of launchd on macOS, for machines without a package of
// taskengine. The files in files/ are also those of the packages, which tools/release makes.
package service

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

//go:embed files
var files embed.FS

// packaged is the path of the program in packages, and in the unit.
const packaged = "/usr/bin/taskengine"

// Machine is where a service is installed.
type Machine struct {
	System   string // linux or darwin
	Root     string // the folder that stands for /; "": this machine
	Program  string // the absolute path of the program
	MayWrite bool   // whether this process may change the machine
	User     string // as which the node runs under launchd
	Run      func(name string, args ...string) (output string, err error)
}

// Status is how far the service is installed.
type Status struct {
	Unit    string // the file; "" if there is none
	Package bool   // whether the file is that of a package
	Current bool   // whether the file is that of this version and of this program
	Config  string // the file of the configuration
	Enabled string // whether it starts with the machine, as the service manager says it
	Active  string // whether it runs, as the service manager says it
}

// manager is a kind of service manager.
type manager interface {
	// installed returns the file of a service that is installed, and whether that is the file of a package.
	installed() (path string, isPackage bool)
	ready() error // whether services can be changed
	install() ([]Step, error)
	uninstall() []Step
	status(s *Status) (unit []byte)
}

// manager returns the service manager of the machine.
func (m *Machine) manager() (manager, error) {
	switch m.System {
	case "linux":
		return systemd{m}, nil
	case "darwin":
		return launchd{m}, nil
	}
	return nil, fmt.Errorf("services are installed on Linux and macOS, and this is %s: start `taskengine run -c FILE` by the service manager of this system", m.System)
}

// Install returns the steps that install the service, or an error that says what to do first. A dry run may lack the rights
// for the steps.
func (m *Machine) Install(dry bool) ([]Step, error) {
	s, err := m.manager()
	if err != nil {
		return nil, err
	}
	if path, isPackage := s.installed(); isPackage {
		return nil, fmt.Errorf("a package has installed the service (%s): start it by systemctl enable --now taskengine", path)
	}
	if err := m.checkProgram(); err != nil {
		return nil, err
	}
	if err := m.check(s, dry); err != nil {
		return nil, err
	}
	return s.install()
}

// Uninstall returns the steps that remove the service. The configuration and the tasks stay.
func (m *Machine) Uninstall(dry bool) ([]Step, error) {
	s, err := m.manager()
	if err != nil {
		return nil, err
	}
	path, isPackage := s.installed()
	switch {
	case isPackage:
		return nil, fmt.Errorf("a package has installed the service (%s): remove the package, for example by apt remove taskengine", path)
	case path == "":
		return nil, ErrNone
	}
	if err := m.check(s, dry); err != nil {
		return nil, err
	}
	return s.uninstall(), nil
}

// ErrNone says that the service is not installed.
var ErrNone = errors.New("the service is not installed: taskengine service install does it")

// Status returns how far the service is installed, or [ErrNone].
func (m *Machine) Status() (*Status, error) {
	s, err := m.manager()
	if err != nil {
		return nil, err
	}
	found := new(Status)
	if found.Unit, found.Package = s.installed(); found.Unit == "" {
		return nil, ErrNone
	}
	want := s.status(found)
	has, err := os.ReadFile(m.path(found.Unit))
	found.Current = err == nil && string(has) == string(want)
	return found, err
}

// check checks whether this process may take the steps.
func (m *Machine) check(s manager, dry bool) error {
	if dry || m.Root != "" {
		return nil
	}
	if err := s.ready(); err != nil {
		return err
	}
	if !m.MayWrite {
		return errors.New("only root can change services: run the command by sudo, or with --dry-run to see the steps")
	}
	return nil
}

var (
	// plain are paths that need no quotes in any file.
	plain = regexp.MustCompile(`^/[A-Za-z0-9/._+-]+$`)
	// hidden are folders that the unit hides from the node, or that are emptied.
	hidden = []string{"/home/", "/root/", "/run/", "/tmp/", "/var/tmp/", "/dev/"}
)

// checkProgram checks that the service can run the program where it is.
func (m *Machine) checkProgram() error {
	m.Program = strings.TrimPrefix(m.Program, strings.TrimSuffix(m.Root, "/"))
	in := func(folder string) bool { return strings.HasPrefix(m.Program, folder) }
	if m.System == "linux" && slices.ContainsFunc(hidden, in) || !plain.MatchString(m.Program) {
		return fmt.Errorf("the service cannot run %s: copy the program first, by install taskengine /usr/local/bin/, and run /usr/local/bin/taskengine service install", m.Program)
	}
	return nil
}

// path returns where a file of the machine is.
func (m *Machine) path(name string) string { return filepath.Join("/", m.Root, name) }

func (m *Machine) has(name string) bool {
	_, err := os.Stat(m.path(name))
	return !errors.Is(err, fs.ErrNotExist)
}

// content returns the text of one of the files of this package.
func content(name string) string {
	text, err := files.ReadFile("files/" + name)
	if err != nil {
		panic(err) // the file is part of the program
	}
	return string(text)
}
