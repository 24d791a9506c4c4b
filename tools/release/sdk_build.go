package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// The tools that make and check packages. Another version of one that makes them may make other bytes.
const (
	setuptools = "setuptools==80.9.0"
	twine      = "twine==7.0.0"
	publint    = "publint@0.3.25"
	attw       = "@arethetypeswrong/cli@0.18.5"
)

// makePython makes the wheel and the sources.
func (b *sdkBuild) makePython() error {
	python, err := b.venv(setuptools)
	if err != nil {
		return err
	}
	made := filepath.Join(b.folder, "made")
	for _, kind := range []string{"sdist", "wheel"} { // the sources first: a wheel leaves a folder behind
		const script = "import sys, setuptools.build_meta as b; getattr(b, 'build_' + sys.argv[1])(sys.argv[2])"
		if err := command(b.folder, []string{"SOURCE_DATE_EPOCH=" + strconv.FormatInt(b.date.Unix(), 10)}, python, "-c", script, kind, made); err != nil {
			return err
		}
	}
	base := strings.ReplaceAll(sdkName, "-", "_") + "-" + pythonVersion(b.version)
	if err := b.pack(filepath.Join(made, base+".tar.gz"), base+".tar.gz", repackTar); err != nil {
		return err
	}
	if err := b.pack(filepath.Join(made, base+"-py3-none-any.whl"), base+"-py3-none-any.whl", repackZip); err != nil {
		return err
	}
	return checkPython(b.out, b.version)
}

// run runs commands in the folder of the package until one fails.
func (b *sdkBuild) run(commands ...[]string) error {
	for _, c := range commands {
		if err := command(b.folder, nil, c[0], c[1:]...); err != nil {
			return err
		}
	}
	return nil
}

// venv returns the Python of an environment with a package.
func (b *sdkBuild) venv(requirement string) (python string, err error) {
	name, _, _ := strings.Cut(requirement, "=")
	folder := filepath.Join(b.folder, "venv-"+name)
	python = filepath.Join(folder, "bin", "python")
	return python, b.run(
		[]string{"python3", "-m", "venv", folder},
		[]string{python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", requirement},
	)
}

func (b *sdkBuild) lintPython() error {
	python, err := b.venv(twine)
	if err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(b.out, "taskengine_handler-*"))
	if err != nil || len(files) != 2 {
		return fmt.Errorf("there are %d files for Python: %w", len(files), err)
	}
	return b.run(append([]string{python, "-m", "twine", "check", "--strict"}, files...))
}

// makeNode makes the package that npm installs.
func (b *sdkBuild) makeNode() error {
	name := sdkName + "-" + b.version + ".tgz"
	err := b.run(
		[]string{"npm", "ci", "--no-audit", "--no-fund"},
		[]string{"npm", "run", "build"},
		[]string{"npm", "pack", "--ignore-scripts"},
	)
	if err != nil {
		return err
	}
	if err := b.pack(filepath.Join(b.folder, name), name, repackTar); err != nil {
		return err
	}
	return checkNode(b.out, b.version)
}

func (b *sdkBuild) lintNode() error {
	made := filepath.Join(b.out, sdkName+"-"+b.version+".tgz")
	return b.run(
		[]string{"npm", "publish", "--dry-run", "--ignore-scripts", "--tag", "check", made}, // npm demands a tag for a version such as 1.2.3-rc.1
		[]string{"npm", "exec", "--yes", "--package=" + publint, "--", "publint", "run", made, "--strict"},
		[]string{"npm", "exec", "--yes", "--package=" + attw, "--", "attw", made},
	)
}

// makeJava makes the jars, and the pom.xml that a repository gets.
func (b *sdkBuild) makeJava() error {
	err := b.run([]string{
		"mvn", "-B", "-ntp", "-P", "release", "-Dmaven.test.skip=true", "-Dproject.build.outputTimestamp=" + b.date.Format(time.RFC3339), "package",
	})
	if err != nil {
		return err
	}
	base := sdkName + "-" + b.version
	for _, end := range javaJars {
		if err := b.pack(filepath.Join(b.folder, "target", base+end), base+end, repackZip); err != nil {
			return err
		}
	}
	pom, err := os.ReadFile(filepath.Join(b.folder, "target", "dependency-reduced-pom.xml"))
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(b.out, base+".pom"), withoutBuild(pom), 0o644); err != nil {
		return err
	}
	return checkJava(b.out, b.version)
}

// javaJars are the ends of the names of the jars: the package, its sources and its documentation.
var javaJars = []string{".jar", "-sources.jar", "-javadoc.jar"}

// withoutBuild returns a pom.xml without the parts about the build of the package, which its users do not need.
func withoutBuild(pom []byte) []byte {
	text := string(pom)
	for _, part := range []string{"build", "profiles"} {
		before, rest, found := strings.Cut(text, "\n  <"+part+">\n")
		_, after, closed := strings.Cut(rest, "\n  </"+part+">\n")
		if found && closed {
			text = before + "\n" + after
		}
	}
	return []byte(text)
}

// pack packs a file again, into the folder of the release.
func (b *sdkBuild) pack(from, name string, repack func(w io.Writer, archive []byte, date time.Time) error) error {
	archive, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(b.out, name), func(f *os.File) error { return repack(f, archive, b.date) })
}
