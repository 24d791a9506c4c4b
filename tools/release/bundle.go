package main

import (
	"bytes"
	"crypto/md5"  //nolint:gosec // Maven Central demands these checksums beside the signatures
	"crypto/sha1" //nolint:gosec
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// mavenFolder is the folder of the package in a repository of Maven.
const mavenFolder = "io/github/taskengine/" + sdkName + "/"

// bundle signs the package for Java with a key of GnuPG, and makes the archive that Maven Central takes: the files, their signatures and checksums, in the
// folder of the version. Without a key, or without the package, it does nothing. Signatures have a time, so they differ from release to release, and are not in
// the checksums.
func (r *repository) bundle(dir, key string) error {
	version := strings.TrimPrefix(r.version, "v")
	base := sdkName + "-" + version
	if _, err := os.Stat(filepath.Join(dir, base+".pom")); key == "" || os.IsNotExist(err) {
		return nil
	}
	var files []file
	for _, end := range append([]string{".pom"}, javaJars...) {
		content, err := os.ReadFile(filepath.Join(dir, base+end))
		if err != nil {
			return err
		}
		signature, err := signByGPG(content, key)
		if err != nil {
			return fmt.Errorf("sign %s: %w", base+end, err)
		}
		name := mavenFolder + version + "/" + base + end
		for end, content := range map[string][]byte{
			"": content, ".asc": signature, ".md5": fmt.Appendf(nil, "%x", md5.Sum(content)), ".sha1": fmt.Appendf(nil, "%x", sha1.Sum(content)),
		} {
			files = append(files, file{name: name + end, mode: 0o644, content: content})
		}
	}
	sortFiles(files)
	return writeFile(filepath.Join(dir, base+"-maven.zip"), func(w *os.File) error { return writeZip(w, files, r.date) })
}

// signByGPG returns the signature of a text as an armoured file. gpg is used as a program because it also signs with keys in an agent or in a token.
func signByGPG(text []byte, key string) ([]byte, error) {
	cmd := exec.Command("gpg", "--batch", "--yes", "--armor", "--detach-sign", "--local-user", key, "--output", "-")
	var said bytes.Buffer
	cmd.Stdin, cmd.Stderr = bytes.NewReader(text), &said
	signature, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("gpg with the key %s: %w: %s", key, err, bytes.TrimSpace(said.Bytes()))
	}
	return signature, nil
}
