package scanner

import "errors"

// Faults are all faults this package names, in the order of their codes, for the
// technician's guide. A fault that happens says more: the port, the line, the owner.
func Faults() []*Fault {
	said := func(code, technician string) *Fault { return newFault(code, technician, errors.New("of the guide")) }
	return []*Fault{
		said(CodeMissing, "Nothing at the scanner's port, or it hung up: cable, power, or a scanner in keyboard mode instead of USB-COM."),
		said(CodeBusy, "Another program holds the port: ModemManager, a login prompt, a second terminald."),
		said(CodePermission, "The daemon's user may not open the port: put it into the port's group, or correct the udev rule."),
		said(CodePort, "The configured path is no working serial port."),
		said(CodeUnstable, "The port comes and goes: loose plug, too little power, or brltty claiming the adapter."),
		said(CodeNoSuffix, "Bytes came and their end mark never did: set the scanner to end each code with CR."),
		said(CodeDamaged, "A byte of the code was lost to parity or a break: cable, ground, speed."),
		said(CodeParity, "The scanner sends 7 bits and parity, the configuration reads 8: set data_bits and parity."),
		said(CodeGarbage, "The bytes make no text: the scanner's speed is another than the configured baud, or a code never ends."),
		said(CodeGlued, "One code came several times in one record: switch continuous reading off in the scanner."),
		said(CodePrefix, "A code came without the configured prefix: another scanner, or it lost its settings."),
		said(CodeDeaf, "The scanner answers no command of the configured control: wrong protocol, or host commands are off."),
	}
}
