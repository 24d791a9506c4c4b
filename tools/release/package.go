package main

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// pack is a package for Linux: what one as deb and one as rpm have in common.
type pack struct {
	platform
	version string // of the release, with its v
	date    time.Time
	files   []file // without folders, in the order of their names
	level   int    // of the compression
}

const (
	summary     = "durable task engine"
	description = "taskengine keeps tasks durably, finds the next one to run, and hands it to a handler."
	homepage    = "https://" + module
)

// serviceFiles are the files of the service by their names in packages. The program installs the same ones.
var serviceFiles = map[string]string{
	"usr/lib/systemd/system/taskengine.service": "taskengine.service",
	"usr/lib/sysusers.d/taskengine.conf":        "taskengine.sysusers",
	packageConfig:                               "taskengine.yaml",
}

// packageConfig is the file of a package that a user changes and an upgrade keeps.
const packageConfig = "etc/taskengine/taskengine.yaml"

// completionFolders are the folders of the scripts of shells, but zsh.
var completionFolders = map[string]string{
	"bash": "usr/share/bash-completion/completions/",
	"fish": "usr/share/fish/vendor_completions.d/",
}

// packageFiles are the files of packages. zsh is the folder of scripts for zsh, which differs between distributions.
func packageFiles(source string, binary []byte, documents []file, x *extras, zsh string) ([]file, error) {
	all := []file{{name: "usr/bin/" + program, mode: 0o755, content: binary}}
	for name, from := range serviceFiles {
		content, err := os.ReadFile(filepath.Join(source, "cmd/taskengine/internal/service/files", from))
		if err != nil {
			return nil, err
		}
		all = append(all, file{name: name, mode: 0o644, content: content})
	}
	for _, d := range documents {
		if d.name == "LICENSE" {
			d.name = "copyright" // which also images of Debian without documents keep
		}
		d.name = "usr/share/doc/" + program + "/" + d.name
		all = append(all, d)
	}
	for _, page := range x.manual {
		var packed bytes.Buffer
		z, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
		if err != nil {
			return nil, err
		}
		if _, err := z.Write(page.content); err != nil {
			return nil, err
		}
		if err := z.Close(); err != nil {
			return nil, err
		}
		all = append(all, file{name: "usr/share/man/man1/" + page.name + ".gz", mode: 0o644, content: packed.Bytes()})
	}
	for _, shell := range shells {
		folder := completionFolders[shell]
		if shell == "zsh" {
			folder = zsh
		}
		all = append(all, file{name: folder + completionName(shell), mode: 0o644, content: x.completions[shell]})
	}
	sortFiles(all)
	return all, nil
}

// packageVersion is the version as dpkg and rpm compare it: 1.2.3~rc.1 is before 1.2.3.
func packageVersion(version string) string {
	number, before, isBefore := strings.Cut(strings.TrimPrefix(version, "v"), "-")
	if !isBefore {
		return number
	}
	return number + "~" + strings.ReplaceAll(before, "-", ".")
}

// The parts of the scripts that both kinds of packages run.
const (
	makeUser = `if command -v systemd-sysusers >/dev/null; then
	systemd-sysusers taskengine.conf
elif ! id -u taskengine >/dev/null 2>&1; then
	useradd --system --user-group --home-dir /var/lib/taskengine --no-create-home --shell /usr/sbin/nologin taskengine
fi
`
	reload = `if [ -d /run/systemd/system ]; then
	systemctl daemon-reload || :
fi
`
	// A node that runs is restarted. The package does not wait for running tasks and for the store.
	restart = `if [ -d /run/systemd/system ]; then
	systemctl --no-block try-restart taskengine.service || :
fi
`
	stop = `if [ -d /run/systemd/system ]; then
	systemctl stop taskengine.service || :
fi
if command -v systemctl >/dev/null; then
	systemctl --quiet disable taskengine.service || :
fi
`
)
