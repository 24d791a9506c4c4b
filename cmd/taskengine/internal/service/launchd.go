package service

import (
	"errors"
	"strings"
)

// The files of the service on macOS.
const (
	plistPath    = "/Library/LaunchDaemons/taskengine.plist"
	darwinConfig = "/usr/local/etc/taskengine/taskengine.yaml"
	darwinData   = "/usr/local/var/taskengine"
	launchdName  = "system/taskengine"
)

// launchd is the service manager of macOS.
type launchd struct{ *Machine }

func (l launchd) installed() (path string, isPackage bool) {
	if l.has(plistPath) {
		return plistPath, false
	}
	return "", false
}

func (l launchd) ready() error { return nil }

// plist returns the description of the service for a program and a user.
func plist(program, user string) string {
	return strings.NewReplacer("@PROGRAM@", program, "@USER@", user).Replace(content("taskengine.plist"))
}

func (l launchd) install() ([]Step, error) {
	if l.User == "" || !plain.MatchString("/"+l.User) {
		return nil, errors.New("the node runs as the user who calls sudo: run sudo taskengine service install")
	}
	steps := []Step{
		l.write(plistPath, plist(l.Program, l.User)),
		l.writeOnce(darwinConfig, strings.ReplaceAll(content("taskengine.yaml"), "/var/lib/taskengine", darwinData)),
	}
	if l.Root == "" {
		if l.isLoaded() {
			steps = append(steps, l.run("launchctl", "bootout", launchdName)) // it refuses a service that it has already
		}
		steps = append(steps,
			l.run("mkdir", "-p", darwinData),
			l.run("chown", l.User, darwinData),
			l.run("launchctl", "bootstrap", "system", plistPath))
	}
	return steps, nil
}

func (l launchd) uninstall() []Step {
	steps := []Step{l.remove(plistPath)}
	if l.Root == "" && l.isLoaded() {
		steps = append([]Step{l.run("launchctl", "bootout", launchdName)}, steps...)
	}
	return steps
}

// isLoaded reports whether launchd has the service.
func (l launchd) isLoaded() bool {
	_, err := l.Run("launchctl", "print", launchdName)
	return err == nil
}

func (l launchd) status(found *Status) []byte {
	found.Config, found.Enabled, found.Active = darwinConfig, "enabled", "unknown"
	if l.Root == "" {
		found.Active = "inactive"
		if l.isLoaded() {
			found.Active = "active"
		}
	}
	return []byte(plist(l.Program, l.User))
}
