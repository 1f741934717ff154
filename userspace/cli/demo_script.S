// Embeds the workload of `cowprof demo`; the build passes its path as COWPROF_DEMO_SCRIPT.
	.section .rodata
	.global cowprof_demo_script
	.global cowprof_demo_script_end
cowprof_demo_script:
	.incbin COWPROF_DEMO_SCRIPT
cowprof_demo_script_end:
	.byte 0
	.section .note.GNU-stack, "", @progbits
