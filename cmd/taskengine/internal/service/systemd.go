package service

import (
	"errors"
	"strings"
)

// The files of the service on Linux.
const (
	unitName       = "taskengine.service"
	unitPath       = "/etc/systemd/system/" + unitName
	sysusersPath   = "/etc/sysusers.d/taskengine.conf"
	linuxConfig    = "/etc/taskengine/taskengine.yaml"
	systemdRunning = "/run/systemd/system"
)

// systemd is the service manager of Linux.
type systemd struct{ *Machine }

func (s systemd) installed() (path string, isPackage bool) {
	for _, path := range []string{"/usr/lib/systemd/system/" + unitName, "/lib/systemd/system/" + unitName} {
		if s.has(path) {
			return path, true
		}
	}
	if s.has(unitPath) {
		return unitPath, false
	}
	return "", false
}

func (s systemd) ready() error {
	if !s.has(systemdRunning) {
		return errors.New("systemd does not run on this machine: start `taskengine run -c FILE` by the service manager that runs here, or name the folder of a system with systemd by --root FOLDER")
	}
	return nil
}

// unit returns the unit of a program.
func unit(program string) string {
	return strings.ReplaceAll(content(unitName), "ExecStart="+packaged+" ", "ExecStart="+program+" ")
}

// systemctl returns the step that runs systemctl.
func (s systemd) systemctl(args ...string) Step {
	return s.run(append([]string{"systemctl"}, s.inRoot(args)...)...)
}

// inRoot returns the arguments of a command of systemd, for the folder that stands for /.
func (s systemd) inRoot(args []string) []string {
	if s.Root == "" {
		return args
	}
	return append([]string{"--root=" + s.path("/")}, args...)
}

func (s systemd) install() ([]Step, error) {
	steps := []Step{
		s.write(unitPath, unit(s.Program)),
		s.write(sysusersPath, content("taskengine.sysusers")),
		s.writeOnce(linuxConfig, content("taskengine.yaml")),
		s.run(append([]string{"systemd-sysusers"}, s.inRoot([]string{"taskengine.conf"})...)...),
	}
	if s.Root == "" {
		steps = append(steps, s.systemctl("daemon-reload"))
	}
	return append(steps, s.systemctl("enable", unitName)), nil
}

func (s systemd) uninstall() []Step {
	if s.Root != "" {
		return []Step{s.systemctl("disable", unitName), s.remove(unitPath), s.remove(sysusersPath)}
	}
	return []Step{s.systemctl("disable", "--now", unitName), s.remove(unitPath), s.remove(sysusersPath), s.systemctl("daemon-reload")}
}

func (s systemd) status(found *Status) []byte {
	found.Config, found.Active = linuxConfig, "unknown"
	found.Enabled = s.state("systemctl", s.inRoot([]string{"is-enabled", unitName})...)
	if s.Root == "" {
		found.Active = s.state("systemctl", "is-active", unitName)
	}
	if found.Package {
		return []byte(content(unitName))
	}
	return []byte(unit(strings.TrimPrefix(s.Program, strings.TrimSuffix(s.Root, "/"))))
}
