// Embeds the built viewer in the binary; the build passes its path as COWPROF_PAGE_TEMPLATE.
	.section .rodata
	.global cowprof_page_template
	.global cowprof_page_template_end
cowprof_page_template:
	.incbin COWPROF_PAGE_TEMPLATE
cowprof_page_template_end:
	.byte 0
	.section .note.GNU-stack, "", @progbits
