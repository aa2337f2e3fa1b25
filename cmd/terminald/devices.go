package main

import (
	"context"
	"errors"
	"image"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"grattoir/cmd/internal/pins"
	"grattoir/cmd/internal/stationery"
	"grattoir/configs"
	"grattoir/device/control"
	"grattoir/device/gpio"
	"grattoir/device/health"
	"grattoir/device/printer"
	"grattoir/device/scanner"
	"grattoir/device/terminal"
	"grattoir/validate"
	"grattoir/validate/ticket"
)

// devices are what the counter works with. They connect when they are run, and any of
// them may be missing then.
type devices struct {
	paper   *printer.Device
	profile printer.Profile
	logo    image.Image // of slips, nil for none
	glass   *scanner.Scanner
}

// makeDevices makes them from the configuration, the printer with its lines on the board.
// layouts are those of the tickets that may be scanned, asked once the devices run.
func makeDevices(c configs.Terminal, board *gpio.Board, layouts func() []ticket.Layout, log *slog.Logger) (devices, error) {
	sheet, err := stationery.Config(c)
	if err != nil {
		return devices{}, err
	}
	sheet = pins.Printer(board, sheet)
	glass := scanner.Config{Path: c.Scanner.Path, Baud: c.Scanner.Baud, Parity: c.Scanner.Parity, DataBits: c.Scanner.DataBits, Suffix: c.Scanner.Suffix, Prefix: c.Scanner.Prefix,
		Idle: time.Duration(c.Scanner.IdleMS) * time.Millisecond, Control: c.Scanner.Control, Layouts: layouts, Whole: health.IsMark}
	if err := errors.Join(sheet.Validate(), glass.Validate()); err != nil {
		return devices{}, err
	}
	logo, err := stationery.Logo(c, sheet.Profile)
	if err != nil {
		return devices{}, err
	}
	return devices{logo: logo, paper: printer.New(sheet, log), profile: sheet.Profile, glass: scanner.New(glass, log)}, nil
}

// tornMark is a file that is there while a slip is printed that no entry of the ledger
// speaks of as being printed: that of a closing, or of a check.
type tornMark string

func tornIn(data string) tornMark { return tornMark(filepath.Join(data, "closing-slip")) }

func (m tornMark) set() error { return os.WriteFile(string(m), nil, 0o600) }

// found says that the last run ended inside such a slip, once.
func (m tornMark) found() bool { return os.Remove(string(m)) == nil }

// desk is the printer as the counter has it.
type desk struct {
	printer.Desk
	torn tornMark
}

// PrintClosing prints the slip of a closing. A program that is killed meanwhile leaves the
// mark, and the next one cuts the torn piece off.
func (d desk) PrintClosing(ctx context.Context, c validate.Closing) (validate.PrintState, error) {
	return d.marked(func() (validate.PrintState, error) { return d.Desk.PrintClosing(ctx, c) })
}

// PrintResult prints the slip of a check, with the same mark.
func (d desk) PrintResult(ctx context.Context, r terminal.Result) (validate.PrintState, error) {
	return d.marked(func() (validate.PrintState, error) { return d.Desk.PrintResult(ctx, r) })
}

func (d desk) marked(print func() (validate.PrintState, error)) (validate.PrintState, error) {
	if err := d.torn.set(); err != nil {
		d.Log.Warn("should the program be killed while this slip is printed, its piece will hang on the next one", "err", err)
	}
	state, err := print()
	if state != validate.Unknown {
		d.torn.found()
	}
	return state, err
}

// printerActs are what a technician does about a stuck printer; a fault of the printer is
// told in the clerk's words too.
func printerActs(p *printer.Device) control.PrinterActs {
	worded := func(act func(context.Context) error) func(context.Context) error {
		return func(ctx context.Context) error {
			err := act(ctx)
			if f, ok := errors.AsType[printer.Fault](err); ok {
				return &terminal.Denied{Fault: terminal.Fault{Code: f.Code, ClerkFR: f.ClerkFR, ClerkEN: f.ClerkEN, Technician: f.Technician}, Err: err}
			}
			return err
		}
	}
	return control.PrinterActs{Clear: worded(p.Clear), Recover: worded(p.Recover)}
}

// aimLetter is the letter of an AIM identifier as "]d1".
func aimLetter(aim string) byte {
	if len(aim) < 2 {
		return 0
	}
	return aim[1]
}

func scannerFault(s scanner.State) *terminal.Fault {
	if s.Fault == nil {
		return nil
	}
	return &terminal.Fault{Code: s.Fault.Code, ClerkFR: s.Fault.ClerkFR, ClerkEN: s.Fault.ClerkEN, Technician: s.Fault.Technician}
}

// devicesConnect is how long the link waits for the devices at most.
const devicesConnect = 3 * time.Second

// awaitDevices waits until scanner and printer work, for a short time.
func awaitDevices(ctx context.Context, counter *terminal.Terminal) {
	ctx, cancel := context.WithTimeout(ctx, devicesConnect)
	defer cancel()
	for {
		state, changed := counter.State()
		if state.Scanner == nil && state.Printer == nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}

// faultCodes are the codes of what does not work, for central's reports.
func faultCodes(counter *terminal.Terminal, more ...*terminal.Fault) []string {
	state, _ := counter.State()
	codes := []string{}
	for _, f := range append([]*terminal.Fault{state.Scanner, state.Printer, state.Paper, state.Ledger, state.Clock, state.Limits}, more...) {
		if f != nil {
			codes = append(codes, f.Code)
		}
	}
	for _, f := range state.Board {
		codes = append(codes, f.Code)
	}
	return codes
}
