package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// repository is the commit that is checked out in a folder.
type repository struct {
	dir     string
	version string // of the release, with its v
	commit  string
	date    time.Time // of the commit
}

// versions are those that Go takes from a tag.
var versions = regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?$`)

// relative are the links of Markdown to files of the repository.
var relative = regexp.MustCompile(`\]\(([^):]+)\)`)

// openRepository reads the commit that is checked out in dir. It refuses changes that are not committed, because they
// would not be in the release.
func openRepository(dir, version string) (*repository, error) {
	if !versions.MatchString(version) {
		return nil, fmt.Errorf("-version %q is not a version such as v1.2.3 or v1.2.3-rc.1", version)
	}
	changed, err := git(dir, "status", "--porcelain", "--untracked-files=no")
	if err != nil {
		return nil, err
	}
	if changed != "" {
		return nil, fmt.Errorf("commit these changes first, or the release would lack them:\n%s", changed)
	}
	r := &repository{dir: dir, version: version}
	if r.commit, err = git(dir, "rev-parse", "HEAD"); err != nil {
		return nil, err
	}
	if tagged, err := git(dir, "rev-parse", "--quiet", "--verify", "refs/tags/"+version+"^{commit}"); err == nil && tagged != r.commit {
		return nil, fmt.Errorf("the tag %s is the commit %s, and %s is checked out: check out the tag", version, tagged, r.commit)
	}
	said, err := git(dir, "show", "--no-patch", "--format=%cI", r.commit)
	if err != nil {
		return nil, err
	}
	if r.date, err = time.Parse(time.RFC3339, said); err != nil {
		return nil, err
	}
	r.date = r.date.UTC()
	return r, nil
}

// checkOut clones the commit into a new folder and gives it the tag of the version there, so that Go finds the version
// before the tag is published. Go finds no other tag, and no file that is not committed.
func (r *repository) checkOut() (dir string, err error) {
	dir, err = os.MkdirTemp("", "release-source-")
	if err != nil {
		return "", err
	}
	for _, args := range [][]string{
		{"clone", "--quiet", "--shared", "--no-tags", "--no-checkout", r.dir, dir},
		{"-C", dir, "checkout", "--quiet", "--detach", r.commit},
		{"-C", dir, "-c", "tag.gpgSign=false", "tag", r.version},
	} {
		if _, err := git(r.dir, args...); err != nil {
			removeTree(dir)
			return "", err
		}
	}
	return dir, nil
}

// notes are the lines of the version in CHANGELOG.md.
func (r *repository) notes() ([]byte, error) {
	log, err := git(r.dir, "show", r.commit+":CHANGELOG.md")
	if err != nil {
		return nil, err
	}
	return notesOf(log, r.version)
}

// notesOf cuts the section of a version out of a changelog. A version before a release, such as v1.2.3-rc.1, may have the
// section Unreleased.
func notesOf(log, version string) ([]byte, error) {
	number := strings.TrimPrefix(version, "v")
	section := sectionOf(log, number)
	if section == "" && strings.Contains(version, "-") {
		section = sectionOf(log, "Unreleased")
	}
	if section == "" {
		return nil, fmt.Errorf("CHANGELOG.md has no section ## [%s]: give the section ## [Unreleased] this name and a date", number)
	}
	section = relative.ReplaceAllString(section, "](https://"+module+"/blob/"+version+"/$1)") // the notes are read elsewhere
	return []byte("# " + program + " " + version + "\n\n" + section + "\n"), nil
}

// sectionOf returns the lines below the heading of a version, up to the next one.
func sectionOf(log, name string) string {
	var found []string
	inside := false
	for line := range strings.Lines(log) {
		if strings.HasPrefix(line, "## ") {
			inside = strings.HasPrefix(line, "## ["+name+"]")
			continue
		}
		if inside {
			found = append(found, line)
		}
	}
	return strings.TrimSpace(strings.Join(found, ""))
}

// git runs git in a folder and returns its output.
func git(dir string, args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(said.String()))
	}
	return strings.TrimSpace(string(out)), nil
}

// removeTree removes a folder that may have folders without the right to write, as the cache of the compiler has.
func removeTree(dir string) {
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			return os.Chmod(path, 0o700)
		}
		return err
	})
	_ = os.RemoveAll(dir)
}

// compareFolders returns an error that names the files that differ.
func compareFolders(a, b string) error {
	names := make(map[string]bool)
	for _, dir := range []string{a, b} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		for _, e := range entries {
			names[e.Name()] = true
		}
	}
	var errs []error
	for name := range names {
		one, err := os.ReadFile(filepath.Join(a, name))
		errs = append(errs, err)
		two, err := os.ReadFile(filepath.Join(b, name))
		errs = append(errs, err)
		if !bytes.Equal(one, two) {
			errs = append(errs, fmt.Errorf("%s was made twice and differs", name))
		}
	}
	return errors.Join(errs...)
}
