package image

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// shell runs the tools of other people, and keeps what they say.
type shell struct {
	log io.Writer // everything they print
	env []string  // besides this process's own
}

// run runs one tool. Its error ends with the last lines that the tool printed.
func (s shell) run(ctx context.Context, name string, args ...string) error {
	_, err := s.output(ctx, name, args...)
	return err
}

// output is run, and what the tool printed to its standard output.
func (s shell) output(ctx context.Context, name string, args ...string) (string, error) {
	fmt.Fprintf(s.log, "+ %s %s\n", name, strings.Join(args, " "))
	var out, said bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(append(os.Environ(), "LC_ALL=C", "TZ=UTC"), s.env...)
	cmd.Stdout = io.MultiWriter(&out, &said, s.log)
	cmd.Stderr = io.MultiWriter(&said, s.log)
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s", name, err, lastLines(said.String(), 12))
	}
	return out.String(), nil
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

func (s shell) with(env ...string) shell {
	s.env = append(append([]string{}, s.env...), env...)
	return s
}
