# U-Boot's script, one for all boards. Boot state: one sector at 1 MiB, as bootstate.go
# tells; RAUC writes it through fw_setenv. Numbers are hexadecimal.
echo "grattoir: ${devtype} ${devnum}"
${devtype} dev ${devnum}
setenv sector ${pxefile_addr_r}
setenv BOOT_ORDER
setenv BOOT_A_LEFT
setenv BOOT_B_LEFT
${devtype} read ${sector} 800 1
env import -c ${sector} 200 BOOT_ORDER BOOT_A_LEFT BOOT_B_LEFT || setenv BOOT_ORDER
if test -z "${BOOT_ORDER}"; then echo "grattoir: no boot state"; setenv BOOT_ORDER "A B"; setenv BOOT_A_LEFT 3; setenv BOOT_B_LEFT 3; fi
if test -z "${BOOT_A_LEFT}"; then setenv BOOT_A_LEFT 0; fi
if test -z "${BOOT_B_LEFT}"; then setenv BOOT_B_LEFT 0; fi
setenv slot
for s in "${BOOT_ORDER}"; do
  if test -z "${slot}"; then
    if test "${s}" = A && test ${BOOT_A_LEFT} -gt 0; then setenv slot A; setenv number 2; setexpr BOOT_A_LEFT ${BOOT_A_LEFT} - 1; fi
    if test "${s}" = B && test ${BOOT_B_LEFT} -gt 0; then setenv slot B; setenv number 3; setexpr BOOT_B_LEFT ${BOOT_B_LEFT} - 1; fi
  fi
done
if test -z "${slot}"; then
  echo "grattoir: no start is left: each slot has all of them again"
  for s in "${BOOT_ORDER}"; do
    if test "${s}" = A; then setenv BOOT_A_LEFT 3; fi
    if test "${s}" = B; then setenv BOOT_B_LEFT 3; fi
  done
fi
env export -c -s 200 ${sector} BOOT_ORDER BOOT_A_LEFT BOOT_B_LEFT
${devtype} write ${sector} 800 1
if test -n "${slot}"; then
  echo "grattoir: slot ${slot}, left A ${BOOT_A_LEFT}, B ${BOOT_B_LEFT}, order ${BOOT_ORDER}"
  setenv bootargs "console=tty0 console=@CONSOLE@ root=PARTUUID=47525454-0${number} ro rauc.slot=${slot} panic=5 net.ifnames=0 quiet loglevel=4"
  setenv tree ${fdt_addr}
  if test -z "${tree}"; then setenv tree ${fdtcontroladdr}; fi
  load ${devtype} ${devnum}:${number} ${kernel_addr_r} /boot/Image && load ${devtype} ${devnum}:${number} ${ramdisk_addr_r} /boot/initrd && booti ${kernel_addr_r} ${ramdisk_addr_r}:${filesize} ${tree}
fi
reset
