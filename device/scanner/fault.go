package scanner

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"

	"go.bug.st/serial"
)

// The codes of faults. They are shown, read out by phone and searched for, so a
// code never changes its meaning.
const (
	CodeMissing    = "S1"  // nothing at the path: not plugged in, or gone
	CodeBusy       = "S2"  // another program has the port
	CodePermission = "S3"  // this program may not open the port
	CodePort       = "S4"  // the path is no working serial port
	CodeUnstable   = "S5"  // the port comes and goes
	CodeNoSuffix   = "S6"  // bytes came, their end mark never did
	CodeDamaged    = "S7"  // a byte of the record was lost to parity or a break
	CodeParity     = "S8"  // the scanner sends 7 bits and parity, we read 8
	CodeGarbage    = "S9"  // bytes make no text: wrong speed, or an endless record
	CodeGlued      = "S10" // one code several times in one record
	CodePrefix     = "S11" // a record lacks the configured prefix
	CodeDeaf       = "S12" // the scanner answers no command of the configured control
)

// Fault is something that keeps scans from coming, worded for the people who can
// mend it. Clerk texts are at most two lines of 32 columns, the technician's is one
// paragraph. It is an error; no text holds any part of a scanned code.
type Fault struct {
	Code       string
	ClerkFR    string
	ClerkEN    string
	Technician string
	Err        error // the cause, never nil
}

// Error is one line for the log.
func (f *Fault) Error() string { return "scanner " + f.Code + ": " + f.Err.Error() }

// Unwrap returns the cause.
func (f *Fault) Unwrap() error { return f.Err }

// Clerk is the clerk's text in a language: "en", otherwise French.
func (f *Fault) Clerk(language string) string {
	if language == "en" {
		return f.ClerkEN
	}
	return f.ClerkFR
}

// newFault words a fault. Technician texts of what depends on the port are given
// by the caller; the clerk can only do what is the same everywhere.
func newFault(code, technician string, err error) *Fault {
	f := &Fault{Code: code, Technician: technician, Err: err}
	switch code {
	case CodeMissing:
		f.ClerkFR, f.ClerkEN = "Lecteur débranché.\nVérifiez son câble.", "Scanner unplugged.\nCheck its cable."
	case CodeGlued:
		f.ClerkFR, f.ClerkEN = "Code lu deux fois de suite.\nScannez encore le ticket.", "The code was read twice in one.\nScan the ticket again."
	case CodeDeaf:
		f.ClerkFR, f.ClerkEN = "Le lecteur ne répond pas.\nAppelez l'assistance : "+code, "The scanner does not answer.\nCall support: "+code
	case CodeNoSuffix, CodeDamaged, CodePrefix:
		f.ClerkFR, f.ClerkEN = "Lecture incomplète.\nScannez encore le ticket.", "The scan was incomplete.\nScan the ticket again."
	case CodeParity, CodeGarbage:
		f.ClerkFR, f.ClerkEN = "Lecteur mal réglé.\nAppelez l'assistance : "+code, "Scanner set up wrongly.\nCall support: "+code
	case CodeUnstable:
		f.ClerkFR, f.ClerkEN = "Le lecteur se coupe.\nVérifiez son câble.", "The scanner keeps dropping out.\nCheck its cable."
	default:
		f.ClerkFR, f.ClerkEN = "Lecteur indisponible.\nAppelez l'assistance : "+code, "Scanner not available.\nCall support: "+code
	}
	return f
}

// openFault says why a port could not be opened.
func openFault(path string, err error) *Fault {
	err = fmt.Errorf("open %s: %w", path, err)
	var port *serial.PortError
	isPort := errors.As(err, &port)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENXIO), errors.Is(err, syscall.ENODEV), errors.Is(err, syscall.EIO):
		return newFault(CodeMissing, "Nothing at "+path+". Check cable and power; check that the scanner is in USB-COM (CDC) mode, not keyboard mode; compare with /dev/serial/by-id.", err)
	case isPort && port.Code() == serial.PortBusy, errors.Is(err, syscall.EBUSY):
		return newFault(CodeBusy, path+" is held by another program. ModemManager takes new ports for some seconds (rule ID_MM_DEVICE_IGNORE=1); a login prompt on a UART keeps it (mask serial-getty). Trying again by itself.", err)
	case isPort && port.Code() == serial.PermissionDenied, errors.Is(err, fs.ErrPermission):
		return newFault(CodePermission, permissionAdvice(path), err)
	}
	return newFault(CodePort, path+" is no working serial port: "+err.Error()+". Check the configured path.", err)
}

// permissionAdvice names the group that may open the port.
func permissionAdvice(path string) string {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "No permission for " + path + "; the folder above it cannot be read either."
	}
	info, err := os.Stat(real)
	if err != nil {
		return "No permission for " + real + "; its owner cannot be read."
	}
	group := "unknown"
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		group = strconv.FormatUint(uint64(st.Gid), 10)
		if g, err := user.LookupGroupId(group); err == nil {
			group = g.Name
		}
	}
	const groupReadWrite = 0o060
	if info.Mode().Perm()&groupReadWrite != groupReadWrite {
		return fmt.Sprintf("No permission for %s (group %s, mode %v): the mode shuts the group out. Correct the udev rule (GROUP=\"dialout\", MODE=\"0660\").", real, group, info.Mode().Perm())
	}
	return fmt.Sprintf("No permission for %s (mode %v). Add this program's user to group %s, then restart it.", real, info.Mode().Perm(), group)
}

// lostFault says that an open port went away.
func lostFault(path string, err error) *Fault {
	return newFault(CodeMissing, path+" hung up while open: cable, power, or the scanner restarted. Reconnecting by itself.", fmt.Errorf("read %s: %w", path, err))
}

// unstableFault says that the port went away again and again right after it came.
func unstableFault(path string, times int, err error) *Fault {
	return newFault(CodeUnstable, fmt.Sprintf("%s vanished within a second of opening, %d times in a row. Loose plug, too little power, or brltty claiming a CH340/CP210x adapter (remove brltty).", path, times), fmt.Errorf("read %s: %w", path, err))
}
