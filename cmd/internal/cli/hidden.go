package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// ErrNoTerminal means that nobody can type on standard input.
var ErrNoTerminal = errors.New("standard input is no terminal")

// maxHidden bounds a typed line, in bytes.
const maxHidden = 1 << 10

// AskHidden reads a line from the terminal without showing it. The terminal goes dark before
// it asks, so that nobody types too soon, and shows again what is typed whatever ends the
// command. The error is ErrNoTerminal where standard input is something else.
func AskHidden(ctx context.Context, out io.Writer, what string) (string, error) {
	fd := int(os.Stdin.Fd())
	before, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return "", ErrNoTerminal
	}
	dark := *before
	dark.Lflag &^= unix.ECHO
	dark.Lflag |= unix.ICANON | unix.ISIG
	dark.Iflag |= unix.ICRNL
	if err := unix.IoctlSetTermios(fd, unix.TCSETS, &dark); err != nil {
		return "", err
	}
	defer func() { _ = unix.IoctlSetTermios(fd, unix.TCSETS, before) }()
	fmt.Fprintf(out, "%s: ", what)
	defer fmt.Fprintln(out)
	type answer struct {
		text string
		err  error
	}
	typed := make(chan answer, 1)
	go func() { // it changes no setting of the terminal: one that did might do it after the end
		text, err := HiddenLine(os.Stdin)
		typed <- answer{text, err}
	}()
	select {
	case a := <-typed:
		return a.text, a.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// HiddenLine reads up to a line feed or the end, at most 1024 bytes, and not one byte more.
func HiddenLine(in io.Reader) (string, error) {
	var line []byte
	one := make([]byte, 1)
	for len(line) < maxHidden {
		n, err := in.Read(one)
		if n == 1 && one[0] == '\n' {
			return string(line), nil
		}
		line = append(line, one[:n]...)
		if errors.Is(err, io.EOF) && len(line) > 0 {
			return string(line), nil
		}
		if err != nil {
			return "", err
		}
	}
	return "", Usagef("a PIN or password has fewer than %d bytes", len(line))
}
