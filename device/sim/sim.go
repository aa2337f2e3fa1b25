// Package sim is a counter without hardware: a barcode scanner and a receipt
// printer behind pseudo terminals, with the faults that real ones have. The tests
// of the drivers, `terminalctl sim` and the demonstration use it. It opens nothing
// but ptys, decides nothing about tickets, and is never linked into terminald.
//
// A pty shows unplugging, stalls, split and glued bytes and every byte of the
// protocols. It cannot show a wrong speed, parity errors, RTS/CTS, DTR or USB
// timing. Start at NewScanner and NewPrinter; both need Linux.
package sim
