package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"grattoir/cmd/internal/cli"
	"grattoir/device/sim"
)

func simCommand() *cobra.Command {
	var dir string
	var columns int
	cmd := &cobra.Command{
		Use:   "sim --dir DIR",
		Short: "Simulate a scanner and a printer on pseudo terminals, paths printed",
		Long: `Make a scanner and a receipt printer without hardware. DIR/scanner and DIR/printer
are links to them, to be named in terminald's configuration. Each line typed here is
scanned as a code; a line that begins with : is an act on the devices:

  :paper out | :paper ok | :paper low     the roll
  :cover open | :cover closed             the cover
  :printer unplug | :printer plug         its cable
  :printer stall | :printer go            stop and go on taking bytes
  :scanner unplug | :scanner plug         its cable

Slips come out on standard output as text.`,
		Example: `  terminalctl sim --dir /tmp/counter`,
		Args:    cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if dir == "" {
				return cli.Usagef("--dir is missing: name a folder for the two links")
			}
			return simulate(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout(), dir, columns)
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "", "`folder` for the links scanner and printer")
	cmd.Flags().IntVar(&columns, "columns", 42, "the printer's columns: 32, 42 or 48")
	return cmd
}

func simulate(ctx context.Context, in io.Reader, out io.Writer, dir string, columns int) (err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	lock, err := os.OpenFile(filepath.Join(dir, ".sim.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return fmt.Errorf("another sim uses %s: end it first, or name another folder", dir)
	}
	glass, err := sim.NewScanner(filepath.Join(dir, "scanner"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, glass.Close()) }()
	paper, err := sim.NewPrinter(filepath.Join(dir, "printer"), sim.PrinterOptions{Columns: columns})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, paper.Close()) }()
	if _, err := fmt.Fprintf(out, "scanner %s\nprinter %s\n", filepath.Join(dir, "scanner"), filepath.Join(dir, "printer")); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var printing sync.WaitGroup
	printing.Go(func() {
		for {
			slip, err := paper.Next(ctx)
			if err != nil {
				return
			}
			fmt.Fprintf(out, "\n%s\n", slip.Text())
		}
	})
	defer printing.Wait()
	defer cancel()
	return obey(ctx, in, glass, paper)
}

// obey follows the typed lines until they end or ctx does. At the end of the lines the
// devices stay until ctx ends, so that a script may be piped in.
func obey(ctx context.Context, in io.Reader, glass *sim.Scanner, paper *sim.Printer) error {
	lines := make(chan string)
	go func() { // ends with the program: a read from a terminal cannot be cut short
		defer close(lines)
		scan := bufio.NewScanner(in)
		for scan.Scan() {
			select {
			case lines <- scan.Text():
			case <-ctx.Done():
				return
			}
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return nil
		case line, more := <-lines:
			if !more {
				<-ctx.Done()
				return nil
			}
			line = strings.TrimSpace(line)
			if err := act(line, glass, paper); err != nil {
				fmt.Fprintf(os.Stderr, "terminalctl: %v\n", err)
			} else if line != "" {
				fmt.Fprintln(os.Stderr, "done")
			}
		}
	}
}

func act(line string, glass *sim.Scanner, paper *sim.Printer) error {
	set := func(change func(*sim.State)) error { paper.Set(change); return nil }
	switch line {
	case "":
		return nil
	case ":paper out":
		return set(func(s *sim.State) { s.PaperEnd = true })
	case ":paper low":
		return set(func(s *sim.State) { s.PaperNearEnd = true })
	case ":paper ok":
		return set(func(s *sim.State) { s.PaperEnd, s.PaperNearEnd = false, false })
	case ":cover open":
		return set(func(s *sim.State) { s.CoverOpen = true })
	case ":cover closed":
		return set(func(s *sim.State) { s.CoverOpen = false })
	case ":printer stall":
		return set(func(s *sim.State) { s.Stalled = true })
	case ":printer go":
		return set(func(s *sim.State) { s.Stalled = false })
	case ":printer unplug":
		return paper.Unplug()
	case ":printer plug":
		return paper.Replug()
	case ":scanner unplug":
		return glass.Unplug()
	case ":scanner plug":
		return glass.Replug()
	}
	if strings.HasPrefix(line, ":") {
		return fmt.Errorf("%.40q is no act: see terminalctl sim --help", line)
	}
	return glass.Scan(line)
}
